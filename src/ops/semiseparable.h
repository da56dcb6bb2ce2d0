// SPDX-License-Identifier: Apache-2.0
// The causal state-space scan of Mamba-2 (SSD). Its matrix M is semiseparable:
//
//   h_t = exp(dt_t A) h_{t-1} + dt_t x_t b_t^T,   s_t = h_t c_t            (h_{-1} = 0)
//   M_ij = c_i . b_j exp(A sum_{t=j+1}^{i} dt_t) dt_j   for i >= j, else 0
//
// Head h of H reads group h / (H / G) of b and c. Each decay is the exponential of a sum of dt A
// over its own range, not a quotient of prefix products or a difference of long prefix sums. So
// dt = 0, a huge dt or a million tokens cause no overflow, early underflow or cancellation.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

struct ScanParams {
  torch::Tensor dt;  // (S, L, H), >= 0
  torch::Tensor A;   // (H), < 0
  torch::Tensor b;   // (S, L, G, N)
  torch::Tensor c;   // (S, L, G, N)

  // The same scan over the reversed sequence.
  ScanParams flipped() const;
};

// (S, L, H, P) -> (S, L, H, P) by the recurrence, position by position: the definition, against
// which the kernels of ops/scan.h are tested.
torch::Tensor semiseparable_scan_ref(const torch::Tensor& x, const ScanParams& params);

// (S, H, L) -> (S, H, L, L): sum of l over (j, i] for i >= j, minus infinity above the diagonal.
// Each entry is the sum of its own terms, so that a huge l at one position does not absorb small
// ones after it.
torch::Tensor range_sums(const torch::Tensor& l);

// (S, H, L, L), lower triangular.
torch::Tensor semiseparable_matrix(const ScanParams& params);

// The contribution of an initial state h_{-1} = h0 (H, P, N) to s: c_t . h0 exp(A sum_{r=0}^{t}
// dt_r), (S, L, H, P).
torch::Tensor initial_state_response(const ScanParams& params, const torch::Tensor& h0);

// Sequence reversal and the shift by one position of the paper's proposition 3.7, along dimension
// `dim`; zero is shifted in.
torch::Tensor flip(const torch::Tensor& t, int64_t dim = 1);
torch::Tensor shift(const torch::Tensor& t, int64_t dim = 1);

}  // namespace hydramix
