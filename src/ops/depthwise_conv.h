// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution along the sequence, zero outside it, of any width K, then SiLU:
//
//   u[t, c] = bias[c] + sum_k weight[c, 0, k] x[t + k - centre, c],   y = silu(u)
//
// centre = K / 2 (integer division), so an even width reaches one position further back than ahead;
// centre = K - 1 if causal. The output has the length of the input.
#pragma once

#include <functional>

#include "hydramix/layout.h"

namespace hydramix {

// x (B, L, C), weight (C, 1, K), bias (C) or undefined -> (B, L, C); sequences are convolved
// separately. Every position of the layout must hold a token (Layout::token_layout). SiLU is
// applied to channels [0, silu) only. One kernel does both and saves only its input for the
// backward pass; float64 on a GPU uses depthwise_conv_ref.
torch::Tensor depthwise_conv_silu(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, bool causal, int64_t silu,
                                  const Layout& layout);

// The convolution alone, with LibTorch's operations: (S, L, C) -> (S, L, C), one sequence per row.
torch::Tensor depthwise_conv_ref(const torch::Tensor& x, const torch::Tensor& weight,
                                 const torch::Tensor& bias, bool causal);

// The same without checks and autograd. Rows of x, y and their gradients may be any distance apart.
struct ConvCall {
  torch::Tensor x;             // (n, C)
  torch::Tensor weight, bias;  // (C, 1, K); (C), or empty
  int64_t centre, silu;
  Sequences sequences;
};
struct ConvWeightGradients {
  torch::Tensor weight, bias;  // bias undefined where there is none
};

namespace on_cpu {
// `then` is called for tokens [begin, end) as soon as they are convolved, while they are in the
// cache, by the thread that convolved them.
using TokensDone = std::function<void(int64_t begin, int64_t end)>;
void conv_forward(const ConvCall& call, const torch::Tensor& y, const TokensDone& then = {});
ConvWeightGradients conv_backward(const ConvCall& call, const torch::Tensor& dy,
                                  const torch::Tensor& dx);  // fills dx
}  // namespace on_cpu
namespace on_cuda {
void conv_forward(const ConvCall& call, const torch::Tensor& y);
ConvWeightGradients conv_backward(const ConvCall& call, const torch::Tensor& dy,
                                  const torch::Tensor& dx);
}  // namespace on_cuda

}  // namespace hydramix
