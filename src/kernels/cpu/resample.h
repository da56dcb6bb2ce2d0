// SPDX-License-Identifier: Apache-2.0
// The two passes of a separable resampling of bytes, in the fixed point that Pillow uses:
//
//   out = clamp((2^21 + sum_k weight_k in_k) >> 22, 0, 255),  weight_k = round(2^22 w_k)
//
// so that the result equals Pillow's bit for bit on every instruction set.
#pragma once

#include <cstdint>

namespace hydramix::kernels {

constexpr int kResampleBits = 22;

// The inputs of each output and their weights.
struct ResampleTaps {
  const int32_t* first;    // (outputs)
  const int32_t* count;    // (outputs)
  const int32_t* weights;  // (outputs, stride)
  int64_t outputs, stride;
};

// One row of RGB pixels. `in` must be readable and `out` writable for one byte after the last
// pixel: a pixel is moved as four bytes.
void resample_columns(const uint8_t* in, const ResampleTaps& taps, uint8_t* out);

// One row of `bytes` bytes from `count` rows that follow each other.
void resample_rows(const uint8_t* in, int64_t bytes, const int32_t* weights, int64_t count,
                   uint8_t* out);

}  // namespace hydramix::kernels
