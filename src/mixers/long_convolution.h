// SPDX-License-Identifier: Apache-2.0
// Mixers that are convolutions with a kernel as long as the sequence, one kernel per head and
// direction, and a skip:
//
//   M_ij = k_{i-j} for i >= j,   k'_{j-i-1} for i < j,   + D [i = j]
//
// A causal mixer has no k'. With headdim 1 every channel has its own kernel, as published. A
// subclass computes the kernels from its weights. Cost O(L log L) in FFTs, besides that of the
// kernels.
#pragma once

#include "hydramix/mixer.h"

namespace hydramix {

class LongConvolution : public Mixer {
 public:
  // Registers the skip D, normally distributed, unless the options have none.
  LongConvolution(Heads heads, const MixerOptions& options);

 protected:
  // k and k' in the dtype of `rows`: (1 or 2, H, L), lag 0 of k and lag -1 of k' first.
  virtual torch::Tensor kernels(const Rows& rows) const = 0;

  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override;
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override;

  // All lags with D: (1, H, 2 L - 1), lag -(L - 1) first.
  torch::Tensor lags(const Rows& rows) const;

 private:
  torch::Tensor D;  // (H), undefined without a skip
};

// The options of a long convolution that has no skip as published.
MixerOptions without_skip(MixerOptions options);

// Kernels (1 or 2, H, L) as all lags of a Toeplitz matrix: (1, H, 2 L - 1), lag -(L - 1) first.
torch::Tensor all_lags(const torch::Tensor& kernels);

// The Toeplitz matrix of these lags applied to x (S, L, H, P), by FFTs unless the matrix is small.
torch::Tensor convolved(const torch::Tensor& lags, const torch::Tensor& x);

}  // namespace hydramix
