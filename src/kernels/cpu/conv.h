// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution, bias and SiLU in one pass over packed sequences. A task is a block of
// tokens of one sequence. It reads inputs of neighbouring blocks, but writes its own tokens only.
#pragma once

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

// Tokens of a block: so many that the gradient of the weights, one part per block, is small.
constexpr int64_t kConvBlock = 128;

// Tokens [begin, end) of the sequence [first, last).
struct ConvBlock {
  int64_t begin, end, first, last;
};

template <typename S>
void conv_forward(const ConvForward<S>& p, const ConvBlock& block);

// Fills dx of the block's tokens, and part `part` of the workspace.
template <typename S>
void conv_backward(const ConvBackward<S>& p, const ConvBlock& block, int64_t part);

}  // namespace hydramix::kernels
