// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_cross_entropy.h"

#include <algorithm>

#include "hydramix/error.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"
#include "ops/product.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A GPU needs larger chunks. These take 1 GB for BERT's vocabulary.
constexpr int64_t kChunkOnGpu = 16384;

struct Chunking {
  int64_t chunk;
  RoundedCopy copy;
  torch::ScalarType type;
};

// Also computes the gradients of the inputs if `gradients` is not null.
CrossEntropy in_chunks(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& targets, const Chunking& chunking,
                       CrossEntropyGradients* gradients) {
  const auto [chunk, copy, type] = chunking;
  if (backend_of(x) == Backend::kCuda && type == torch::kBFloat16)
    return on_cuda::cross_entropy_in_chunks(x, weight, copy.of(weight), bias, targets,
                                            std::max(chunk, kChunkOnGpu), gradients);
  const auto w = weight.to(type);  // once, not for every chunk
  const auto transposed = w.t();
  if (gradients != nullptr)
    *gradients = {torch::empty_like(x), torch::zeros_like(weight), torch::zeros_like(bias)};
  auto sum = torch::zeros({}, x.options().dtype(torch::kFloat64));
  auto correct = torch::zeros({}, targets.options());
  for (int64_t i = 0; i < x.size(0); i += chunk) {
    const int64_t rows = std::min(chunk, x.size(0) - i);
    const auto part = x.narrow(0, i, rows).to(type);
    const auto target = targets.narrow(0, i, rows).unsqueeze(1);  // (rows, 1)
    auto z = matrix_product(part, transposed).to(x.scalar_type());
    z.add_(bias);
    const auto [largest, winner] = z.max(1, /*keepdim=*/true);
    correct += (winner == target).sum();
    // exp(z - max) overwrites z, which avoids a second copy of the logits.
    z.sub_(largest);
    const auto wanted = z.gather(1, target);
    z.exp_();
    const auto total = z.sum(1, /*keepdim=*/true);
    sum += (total.log() - wanted).sum(torch::kFloat64);
    if (gradients == nullptr) continue;
    // d(sum) / dz = softmax(z) - [v = target]
    z.div_(total).scatter_add_(1, target, torch::full_like(total, -1));
    gradients->bias.add_(z.sum(0));
    const auto dz = z.to(type);
    gradients->x.narrow(0, i, rows).copy_(matrix_product(dz, w));
    if (type == x.scalar_type())
      matrix_product_into(gradients->weight, dz.t(), part, /*add=*/true);
    else
      gradients->weight.add_(matrix_product(dz.t(), part));
  }
  return {sum, correct};
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor& targets,
                               const Chunking& chunking) {
    CrossEntropyGradients gradients;
    const auto result = in_chunks(x, weight, bias, targets, chunking, &gradients);
    ctx->save_for_backward({gradients.x, gradients.weight, gradients.bias});
    ctx->mark_non_differentiable({result.correct});
    return {result.sum, result.correct};
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("cross-entropy");
    const auto saved = ctx->get_saved_variables();
    variable_list gradients;
    for (const auto& gradient : saved)
      gradients.push_back(gradient * outputs[0].to(gradient.scalar_type()));
    gradients.resize(5);  // none for targets and chunking
    return gradients;
  }
};

}  // namespace

CrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Tensor& targets, int64_t chunk, const RoundedCopy& copy,
                                  torch::ScalarType type) {
  HYDRAMIX_CHECK(x.dim() == 2 && weight.dim() == 2 && bias.dim() == 1 && targets.dim() == 1 &&
                     x.size(1) == weight.size(1) && bias.size(0) == weight.size(0) &&
                     targets.size(0) == x.size(0) && targets.scalar_type() == torch::kInt64,
                 "cross-entropy: expected x (m, d), weight (V, d), bias (V) and targets (m) int64; "
                 "got ",
                 x.sizes(), ", ", weight.sizes(), ", ", bias.sizes(), " and ", targets.sizes(),
                 " of ", targets.dtype(), ".");
  HYDRAMIX_CHECK_USAGE(chunk >= 1, "cross-entropy: chunk must be at least 1; got ", chunk, ".");
  const Chunking chunking{chunk, copy, type};
  if (!wants_gradient({x, weight, bias}))
    return in_chunks(x, weight, bias, targets, chunking, nullptr);
  const auto result = LinearCrossEntropy::apply(x, weight, bias, targets, chunking);
  return {result[0], result[1]};
}

CrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Tensor& targets, int64_t chunk) {
  return linear_cross_entropy(x, weight, bias, targets, chunk, RoundedCopy(), x.scalar_type());
}

}  // namespace hydramix
