// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv.h"

namespace hydramix {

torch::Tensor depthwise_conv(const torch::Tensor& w, const torch::Tensor& weight,
                             const torch::Tensor& bias, bool causal) {
  const int64_t L = w.size(1), K = weight.size(2), centre = causal ? K - 1 : K / 2;
  const auto padded =
      torch::constant_pad_nd(w, {0, 0, centre, K - 1 - centre});  // (S, L + K - 1, C)
  // K shifted products, in the layout the projection has: no transposes, any dtype.
  torch::Tensor y;
  for (int64_t k = 0; k < K; ++k) {
    const auto tap = padded.narrow(1, k, L) * weight.select(2, k).select(1, 0);
    y = y.defined() ? y + tap : tap;
  }
  return bias.defined() ? y + bias : y;
}

}  // namespace hydramix
