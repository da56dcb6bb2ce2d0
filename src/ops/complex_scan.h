// SPDX-License-Identifier: Apache-2.0
// A complex recurrence with a fixed factor per channel and real input, on packed sequences:
//
//   h_t = lambda h_{t-1} + x_t
//
// kernels/cpu/complex_scan.h and kernels/cuda/complex_scan.h are the kernels.
#pragma once

#include "hydramix/sequences.h"

namespace hydramix {

// x (n, C), lambda = re + sqrt(-1) im with |lambda| <= 1, (C) float64 each -> (n, 2, C): the real
// parts of h, then the imaginary parts. x is float32 or float64 on the CPU, float32 or bfloat16 on
// a GPU; there are no LibTorch operations in place of the kernels. On the CPU the bits of a
// sequence's output do not depend on the other sequences or on the number of threads. The forward
// pass saves its output.
torch::Tensor complex_scan(const torch::Tensor& x, const torch::Tensor& re, const torch::Tensor& im,
                           const Sequences& sequences);

namespace on_cpu {
void complex_scan_forward(const torch::Tensor& x, const torch::Tensor& re, const torch::Tensor& im,
                          const Sequences& sequences, const torch::Tensor& y);
// The gradients of x, re and im.
std::vector<torch::Tensor> complex_scan_backward(const torch::Tensor& re, const torch::Tensor& im,
                                                 const Sequences& sequences, const torch::Tensor& y,
                                                 const torch::Tensor& dy);
}  // namespace on_cpu
namespace on_cuda {
void complex_scan_forward(const torch::Tensor& x, const torch::Tensor& re, const torch::Tensor& im,
                          const Sequences& sequences, const torch::Tensor& y);
std::vector<torch::Tensor> complex_scan_backward(const torch::Tensor& re, const torch::Tensor& im,
                                                 const Sequences& sequences, const torch::Tensor& y,
                                                 const torch::Tensor& dy);
}  // namespace on_cuda

}  // namespace hydramix
