// SPDX-License-Identifier: Apache-2.0
#include "ops/projection.h"

#include "hydramix/error.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"
#include "ops/product.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor rounded_product(const Tensor& x, const Tensor& w, const Tensor& bias) {
  return bias.defined() && bias.numel() > 0 ? torch::addmm(bias.to(torch::kBFloat16), x, w.t())
                                            : torch::mm(x, w.t());
}

// bfloat16 products with float32 gradients of the weight. LibTorch's linear() would round such a
// gradient to bfloat16; here it is summed and stored in float32.
class ProjectFunction : public torch::autograd::Function<ProjectFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const RoundedCopy& copy, const Tensor& x,
                        const Tensor& weight, const Tensor& bias) {
    const auto w = copy.of(weight);
    ctx->save_for_backward({x, w, weight});  // weight only so that autograd detects writes to it
    ctx->saved_data["type"] = static_cast<int64_t>(weight.scalar_type());
    ctx->saved_data["bias"] = bias.numel() > 0;
    return rounded_product(x, w, bias);
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("projection");
    const auto in = ctx->get_saved_variables();
    const auto dy = outputs[0].contiguous();
    const auto type = static_cast<torch::ScalarType>(ctx->saved_data["type"].toInt());
    variable_list grads(4);
    // needs_input_grad() counts only tensor arguments, the returned gradients all arguments; the
    // copy is not a tensor.
    if (ctx->needs_input_grad(0)) grads[1] = torch::mm(dy, in[1]);
    if (ctx->needs_input_grad(1)) grads[2] = on_cuda::product_in_float(dy.t(), in[0]).to(type);
    if (ctx->saved_data["bias"].toBool()) grads[3] = on_cuda::column_sums(dy).to(type);
    return grads;
  }
};

Tensor project_rounded(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const RoundedCopy& copy) {
  const auto rows = x.reshape({-1, x.size(-1)});
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  // An autograd function accepts no undefined tensor: a missing bias is an empty tensor.
  const auto shift = bias.defined() ? bias : torch::empty({0}, weight.options());
  if (wants_gradient({rows, weight, shift}))
    return ProjectFunction::apply(copy, rows, weight, shift).view(shape);
  return rounded_product(rows, copy.of(weight), bias).view(shape);
}

}  // namespace

torch::ScalarType product_type(const Tensor& x, torch::ScalarType precision) {
  HYDRAMIX_CHECK_USAGE(precision == torch::kFloat32 || precision == torch::kBFloat16,
                       "precision: products are computed in float32 or bfloat16; got ", precision,
                       ".");
  if (x.scalar_type() != torch::kFloat32 || precision == torch::kFloat32) return x.scalar_type();
  HYDRAMIX_CHECK(!x.is_cpu(),
                 "precision: bfloat16 products were asked for, but the tensors are on the "
                 "CPU, where products are float32. Ask for float32, or move the model to a GPU.");
  return precision;
}

Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias, const RoundedCopy& copy,
               torch::ScalarType type) {
  if (backend_of(x) == Backend::kCuda && type == torch::kBFloat16)
    return project_rounded(x.to(type), weight, bias, copy).to(x.scalar_type());
  if (type == x.scalar_type())
    return linear_map(x, weight.to(type), bias.defined() ? bias.to(type) : bias);
  const auto y = linear_map(x.to(type), weight.to(type)).to(x.scalar_type());
  return bias.defined() ? y + bias : y;
}

Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return project(x, weight, bias, RoundedCopy(), x.scalar_type());
}

Tensor project_blocks(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto type = x.scalar_type();
  const int64_t blocks = weight.size(0), out = weight.size(1), in = weight.size(2);
  const auto columns = x.reshape({-1, blocks, in}).transpose(0, 1);  // (blocks, n, in)
  const auto products =
      matrix_product(columns, weight.transpose(1, 2).to(type));  // (blocks, n, out)
  auto shape = x.sizes().vec();
  shape.back() = blocks * out;
  const auto y = products.transpose(0, 1).reshape(shape);
  return bias.defined() ? y + bias.to(type) : y;
}

}  // namespace hydramix
