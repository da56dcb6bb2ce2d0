// SPDX-License-Identifier: Apache-2.0
#include "mixers/long_convolution.h"

#include "ops/toeplitz.h"

namespace hydramix {

LongConvolution::LongConvolution(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
  if (options.skip) D = register_parameter("D", torch::randn({heads.H}));
}

torch::Tensor LongConvolution::lags(const Rows& rows) const {
  auto t = all_lags(kernels(rows));
  if (!D.defined()) return t;
  const int64_t side = rows.L - 1;
  return t + torch::constant_pad_nd(weight(D, rows).unsqueeze(1), {side, side});
}

torch::Tensor LongConvolution::matrix(const torch::Tensor&, const Rows& rows) const {
  return toeplitz_matrix(lags(rows));
}

torch::Tensor LongConvolution::product(const torch::Tensor& x, const torch::Tensor&,
                                       const Rows& rows) const {
  return convolved(lags(rows), x);
}

MixerOptions without_skip(MixerOptions options) {
  options.skip = false;
  return options;
}

torch::Tensor all_lags(const torch::Tensor& kernels) {
  const int64_t L = kernels.size(2);
  const auto ahead = kernels.size(0) == 2
                         ? kernels[1].narrow(1, 0, L - 1).flip({1})
                         : torch::zeros({kernels.size(1), L - 1}, kernels.options());
  return torch::cat({ahead, kernels[0]}, 1).unsqueeze(0);
}

torch::Tensor convolved(const torch::Tensor& lags, const torch::Tensor& x) {
  // Below this length building the matrix is as fast as the FFTs, if a head has several channels
  // to multiply it by.
  const int64_t dense_below = x.size(3) >= 8 ? 128 : 32;
  return x.size(1) < dense_below ? dense_apply(toeplitz_matrix(lags), x)
                                 : toeplitz_product(lags, x);
}

}  // namespace hydramix
