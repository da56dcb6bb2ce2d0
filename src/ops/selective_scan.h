// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba (S6) on packed sequences, forward and backward. Per channel, with a
// state h (N),
//
//   h_t = exp(dt_t A) h_{t-1} + dt_t x_t b_t,   y_t = c_t . h_t + D x_t
//
// kernels/cpu/selective_scan.h has the algorithm of the CPU.
#pragma once

#include <limits>

#include "hydramix/sequences.h"

namespace hydramix {

struct SelectiveScanParams {
  torch::Tensor dt;    // (n, C) >= 0, or any numbers if there is a bias
  torch::Tensor A;     // (C, N) < 0
  torch::Tensor b, c;  // (n, N)
  torch::Tensor D;     // (C)
  // (C) or undefined: if it is given, softplus(dt + bias) within the limits takes the place of dt.
  torch::Tensor bias = {};
  double dt_low = 0, dt_high = std::numeric_limits<double>::infinity();
};

// x (n, C) -> (n, C). x, dt, b and c have one dtype: float32 or float64, or bfloat16 on a GPU; A, D
// and bias have the one it is computed in. All are on one device. `tile` is the
// chunk length on the CPU; it does not change the result. On the CPU the bits of a sequence's
// output do not depend on the other sequences or on the number of threads; nor do its gradients,
// except those of A and D, which are sums over all sequences.
//
// The forward pass saves the inputs and the states at chunk boundaries, N / tile floats per channel
// and token. GPUs have kernels for N of 4, 8, 16, 32 and 64; for other sizes, and float64 on a GPU,
// it runs LibTorch's operations, chunk by chunk.
torch::Tensor selective_scan(const torch::Tensor& x, const SelectiveScanParams& params,
                             const Sequences& sequences, int64_t tile);

// The same by LibTorch's operations alone, on any device. Inside a chunk the recurrence is solved
// for all positions at once, in log2(chunk) steps; the backward pass computes each chunk again.
torch::Tensor selective_scan_by_doubling(const torch::Tensor& x, const SelectiveScanParams& params,
                                         const Sequences& sequences, int64_t chunk = 64);

struct SelectiveScanCall {
  torch::Tensor x;  // (n, C)
  SelectiveScanParams params;
  Sequences sequences;
  int64_t tile;
};

// On the CPU without a bias: dt is the step.
namespace on_cpu {
// Fills y (n, C). Returns the states for a backward pass, if one may follow; undefined if every
// sequence is one chunk.
torch::Tensor selective_scan_forward(const SelectiveScanCall& call, const torch::Tensor& y,
                                     bool gradients);
// Fills dx (n, C), and the gradients of dt, b and c; returns all of them.
SelectiveScanParams selective_scan_backward(const SelectiveScanCall& call,
                                            const torch::Tensor& states, const torch::Tensor& dy,
                                            const torch::Tensor& dx);
}  // namespace on_cpu
namespace on_cuda {
bool selective_scan_fits(const torch::Tensor& x, int64_t N);
torch::Tensor selective_scan_forward(const SelectiveScanCall& call, const torch::Tensor& y,
                                     bool gradients);
SelectiveScanParams selective_scan_backward(const SelectiveScanCall& call,
                                            const torch::Tensor& states, const torch::Tensor& dy,
                                            const torch::Tensor& dx);
}  // namespace on_cuda

}  // namespace hydramix
