// SPDX-License-Identifier: Apache-2.0
// The DFT as a Monarch matrix, and convolution through it: GEMMs with small tables, O(L^1.5).
//
// With N = a b, positions n = n_1 b + n_2 and frequencies k = k_1 + a k_2,
//
//   w_N^(n k) = w_b^(n_2 k_2) w_N^(n_2 k_1) w_a^(n_1 k_1)        w_m = exp(-2 pi sqrt(-1) / m)
//
// is a transform of size a for each n_2, a twiddle factor for each entry, and a transform of size b
// for each k_1: block-diagonal factors with a transposition between them. For real input the rows
// k_1 and a - k_1 are conjugate, so only rows 0 .. a / 2 are computed.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

class MonarchDft {
 public:
  // A transform of some size N >= min_size.
  MonarchDft(int64_t min_size, const torch::TensorOptions& options);

  int64_t size() const { return a_ * b_; }

  // Real v (S, positions <= N, C), padded with zeros -> (S, a / 2 + 1, 2, b, C): real and imaginary
  // part of frequency k_1 + a k_2 at [k_1][.][k_2].
  torch::Tensor forward(const torch::Tensor& v) const;
  // The inverse transform, first `places` entries only -> (S, places, C).
  torch::Tensor inverse(const torch::Tensor& spectrum, int64_t places) const;

 private:
  torch::Tensor small_transform(const torch::Tensor& table, const torch::Tensor& v) const;

  int64_t a_, b_;
  torch::Tensor first_;   // (2 (a / 2 + 1), a): cos and -sin of 2 pi k_1 n_1 / a
  torch::Tensor last_;    // (a, 2 (a / 2 + 1)): the inverse, with 1 / N and both conjugate rows
  torch::Tensor second_;  // (2 b, 2 b): the complex transform of size b in real numbers
  torch::Tensor twiddle_,
      inverse_twiddle_;  // (2, a / 2 + 1, b, 1): exp(-+ 2 pi sqrt(-1) k_1 n_2 / N)
};

// As toeplitz_product (ops/toeplitz.h): t (S or 1, H, 2 L - 1), x (S, L, H, P) -> (S, L, H, P).
torch::Tensor monarch_toeplitz_product(const torch::Tensor& t, const torch::Tensor& x);

}  // namespace hydramix
