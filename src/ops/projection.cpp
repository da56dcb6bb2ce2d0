// SPDX-License-Identifier: Apache-2.0
#include "ops/projection.h"

#include "hydramix/error.h"
#include "ops/gpu/ops.h"
#include "ops/product.h"

namespace hydramix {
namespace {

thread_local torch::ScalarType current_type = torch::kFloat32;

}  // namespace

MatmulPrecision::MatmulPrecision(torch::ScalarType type) : before_(current_type) {
  HYDRAMIX_CHECK_USAGE(type == torch::kFloat32 || type == torch::kBFloat16,
                       "matmul precision: products are computed in float32 or bfloat16; got ", type,
                       ".");
  current_type = type;
}

MatmulPrecision::~MatmulPrecision() { current_type = before_; }

torch::ScalarType MatmulPrecision::current() { return current_type; }

torch::ScalarType product_type(const torch::Tensor& x) {
  if (x.scalar_type() != torch::kFloat32 || current_type == torch::kFloat32) return x.scalar_type();
  HYDRAMIX_CHECK(!x.is_cpu(),
                 "matmul precision: bfloat16 products were asked for, but the tensors are on the "
                 "CPU, where products are float32. Ask for float32, or move the model to a GPU.");
  return current_type;
}

torch::Tensor project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias) {
  const auto type = product_type(x);
  if constexpr (gpu::kBuilt)
    if (gpu::takes(x) && type == torch::kBFloat16)
      return gpu::project(x.to(type), weight, bias).to(x.scalar_type());
  if (type == x.scalar_type())
    return linear_map(x, weight.to(type), bias.defined() ? bias.to(type) : bias);
  const auto y = linear_map(x.to(type), weight.to(type)).to(x.scalar_type());
  return bias.defined() ? y + bias : y;
}

torch::Tensor project_blocks(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias) {
  const auto type = product_type(x);
  const int64_t blocks = weight.size(0), out = weight.size(1), in = weight.size(2);
  const auto columns = x.reshape({-1, blocks, in}).transpose(0, 1).to(type);  // (blocks, n, in)
  const auto products =
      matrix_product(columns, weight.transpose(1, 2).to(type));  // (blocks, n, out)
  auto shape = x.sizes().vec();
  shape.back() = blocks * out;
  const auto y = products.transpose(0, 1).reshape(shape).to(x.scalar_type());
  return bias.defined() ? y + bias.to(y.scalar_type()) : y;
}

}  // namespace hydramix
