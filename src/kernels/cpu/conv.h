// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution, bias and SiLU in one pass over packed sequences (ops/depthwise_conv.h has
// the formula). Work is cut into blocks of tokens of one sequence; a block reads its neighbours'
// inputs but writes its own tokens only.
#pragma once

#include <cstdint>

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

struct ConvShape {
  int64_t C, K, centre;
  int64_t silu;  // channels [0, silu) pass SiLU

  // Tokens of a block: many enough that the gradient of the weights, one row per block, is small.
  static constexpr int64_t kBlock = 128;
};

// Tokens [begin, end) of the sequence [first, last).
struct ConvBlock {
  int64_t begin, end, first, last;
};

// x, y (tokens, C), rows x_row and y_row apart; weight (K, C); bias (C) or null.
template <typename S>
void conv_forward(const ConvShape& shape, const ConvBlock& block, const S* x, int64_t x_row,
                  const Arithmetic<S>* weight, const Arithmetic<S>* bias, S* y, int64_t y_row);

// dx (tokens, C) of this block's tokens; dweight (K + 1, C) is what these tokens add to the
// gradient of the weight, and behind it to that of the bias.
template <typename S>
void conv_backward(const ConvShape& shape, const ConvBlock& block, const S* x, int64_t x_row,
                   const Arithmetic<S>* weight, const Arithmetic<S>* bias, const S* dy,
                   int64_t dy_row, S* dx, int64_t dx_row, Arithmetic<S>* dweight);

}  // namespace hydramix::kernels
