// SPDX-License-Identifier: Apache-2.0
// AdamW on flat float32 buffers, as kernels/cpu/adamw.h has it: the sum of squares of the gradients
// in one pass, clipping and the step in another. What changes from step to step is read from device
// memory, so both passes can be part of a CUDA graph.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace hydramix::cuda {

// *sum = the sum of squares of values (n); NaN or infinite if a value is. `workspace` has
// sum_of_squares_workspace() doubles.
int64_t sum_of_squares_workspace(int64_t n);
cudaError_t sum_of_squares(int64_t n, const float* values, double* sum, double* workspace,
                           cudaStream_t stream);

// Everything one step has to know besides buffers and clipping. Lies on the device.
struct AdamWStep {
  float gradient_scale;         // one over the number of terms of the loss
  float beta1, beta2, epsilon;  // of the moments, and what keeps the denominator from zero
  float denominator_scale;      // 1 / sqrt(1 - beta2^t)
  float ema;                    // share of the old average that stays; used where there is one
};

// What differs between weights. Lies on the device too.
struct AdamWGroup {
  float rate;  // the learning rate over 1 - beta1^t
  float keep;  // what decay leaves of a weight
};

struct AdamWBuffers {               // (n) each
  const float* gradient = nullptr;  // of a sum of terms
  float *weight = nullptr, *m = nullptr, *v = nullptr;
  float* average = nullptr;       // of the weights, or null
  __nv_bfloat16* copy = nullptr;  // of the new weights, or null
};

// Which weights are of which group: those of range r, from ends[r - 1] (0 for the first) up to
// ends[r], are of groups[numbers[r]]. Ends ascend; weights after the last end stay as they are. On
// the device.
struct AdamWRanges {
  const int64_t* ends = nullptr;
  const uint8_t* numbers = nullptr;
  int count = 0;
  const AdamWGroup* groups = nullptr;
};

// norm = sqrt(squares) gradient_scale,  g = gradient gradient_scale min(1, clip / norm)
// m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,  w = keep w - rate m / (sqrt(v) scale + eps),
// average = ema average + (1 - ema) w,  copy = w.
// With a norm that is not finite all of them stay as they are. `step` and `squares` are on the
// device.
cudaError_t adamw(int64_t n, const AdamWBuffers& buffers, const AdamWRanges& ranges,
                  const AdamWStep* step, const double* squares, float clip, cudaStream_t stream);

}  // namespace hydramix::cuda
