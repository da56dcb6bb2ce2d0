// SPDX-License-Identifier: Apache-2.0
// The scan with a gate per channel of the keys, on packed sequences, forward and backward:
//
//   y_i = sum_{j <= i} (sum_n q_in k_jn exp(sum_{m=j+1}^{i} g_mn)) x_j,   g <= 0
//
// kernels/cpu/gated_scan.h has the algorithm of the CPU. Any gate is exact, also exp(g) = 0.
#pragma once

#include "hydramix/sequences.h"

namespace hydramix {

struct GatedScanParams {
  torch::Tensor q, k;  // (n, H, N) or (S, L, H, N)
  torch::Tensor g;     // the same shape: logarithms of the gates, <= 0
};

// x (n, H, P) -> (n, H, P). x, q and k have one dtype: float32 or float64, or bfloat16 on a GPU; g
// has the same, or float32 beside bfloat16. All are on one device. `tile` is the chunk length on
// the CPU; it changes the result only by rounding. On the CPU the bits of a sequence's output and
// gradients do not depend on the other sequences or on the number of threads.
//
// The forward pass saves the inputs and the states at chunk boundaries, N / tile floats per channel
// and token. GPUs have kernels for bfloat16 and N and P of 32, 64 or 128; for all else they run
// LibTorch's operations, O(L log L).
torch::Tensor gated_scan(const torch::Tensor& x, const GatedScanParams& params,
                         const Sequences& sequences, int64_t tile);

// The same by LibTorch's operations alone, on any device: the positions are halved again and again,
// and what the left half contributes to the right one is a matrix product.
torch::Tensor gated_scan_by_halves(const torch::Tensor& x, const GatedScanParams& params,
                                   const Sequences& sequences);

// x (S, L, H, P) -> (S, L, H, P) by the recurrence, position by position: the definition, against
// which the others are tested.
torch::Tensor gated_scan_ref(const torch::Tensor& x, const GatedScanParams& params);

// (S, H, L, L): the matrix, entry by entry.
torch::Tensor gated_matrix(const GatedScanParams& params);

struct GatedScanCall {
  torch::Tensor x;  // (n, H, P)
  GatedScanParams params;
  Sequences sequences;
  int64_t tile;
};

namespace on_cpu {
// Fills y (n, H, P). Returns the states for a backward pass, if one may follow; undefined if every
// sequence is one chunk.
torch::Tensor gated_scan_forward(const GatedScanCall& call, const torch::Tensor& y, bool gradients);
// Fills dx (n, H, P) and the gradients of the parameters.
void gated_scan_backward(const GatedScanCall& call, const torch::Tensor& states,
                         const torch::Tensor& dy, const torch::Tensor& dx,
                         const GatedScanParams& gradients);
}  // namespace on_cpu
namespace on_cuda {
bool gated_scan_fits(const torch::Tensor& x, int64_t N, bool gradients);
torch::Tensor gated_scan_forward(const GatedScanCall& call, const torch::Tensor& y, bool gradients);
void gated_scan_backward(const GatedScanCall& call, const torch::Tensor& states,
                         const torch::Tensor& dy, const torch::Tensor& dx,
                         const GatedScanParams& gradients);
}  // namespace on_cuda

}  // namespace hydramix
