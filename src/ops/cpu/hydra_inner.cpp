// SPDX-License-Identifier: Apache-2.0
#include "ops/hydra_inner.h"

#include "ops/narrow_linear.h"
#include "ops/product.h"

namespace hydramix::on_cpu {

HydraDelta hydra_convolve(const ConvCall& call, const HydraWeights& weights,
                          const torch::Tensor& convolved) {
  const auto x = convolved.narrow(1, 0, weights.fc_D.size(1));
  const NarrowRows delta(x, weights.fc_D, weights.D);
  conv_forward(call, convolved, [&](int64_t begin, int64_t end) { delta.compute(begin, end); });
  return {delta.result(), {}};
}

HydraDeltaGradients hydra_delta_backward(const torch::Tensor& x, const HydraWeights& weights,
                                         const torch::Tensor& ddelta, const torch::Tensor&,
                                         const torch::Tensor& dx) {
  dx.add_(matrix_product(ddelta, weights.fc_D));
  return {matrix_product(ddelta.t(), x), ddelta.sum(0)};
}

}  // namespace hydramix::on_cpu
