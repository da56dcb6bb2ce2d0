// SPDX-License-Identifier: Apache-2.0
// AdamW on flat float32 buffers, as kernels/cpu/adamw.h has it: the sum of squares of the gradients
// in one pass, clipping and the step in another. Values that change from step to step are read from
// device memory, so both passes can be captured into a CUDA graph.
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

// Parameters of one step without clipping, in device memory.
struct AdamWStep {
  float gradient_scale;         // one over the number of terms of the loss
  float beta1, beta2, epsilon;  // of the moments; epsilon keeps the denominator from zero
  float denominator_scale;      // 1 / sqrt(1 - beta2^t)
  float ema;  // share of the old average that is kept; not used without an average
};

// Parameters of a group of weights, in device memory.
struct AdamWGroup {
  float rate;  // the learning rate over 1 - beta1^t
  float keep;  // 1 - decay, the factor of the weights
};

struct AdamWBuffers {               // (n) each
  const float* gradient = nullptr;  // of a sum of terms
  float *weight = nullptr, *m = nullptr, *v = nullptr;
  float* average = nullptr;       // of the weights, or null
  __nv_bfloat16* copy = nullptr;  // of the new weights, or null
};

// The groups of the weights: range r, from ends[r - 1] (0 for the first) to ends[r], belongs to
// groups[numbers[r]]. Ends ascend. Weights after the last end do not change. In device memory.
struct AdamWRanges {
  const int64_t* ends = nullptr;
  const uint8_t* numbers = nullptr;
  int count = 0;
  const AdamWGroup* groups = nullptr;
};

//   norm = sqrt(squares) gradient_scale
//   g = gradient gradient_scale min(1, clip / norm)
//   m = b1 m + (1 - b1) g
//   v = b2 v + (1 - b2) g^2
//   w = keep w - rate m / (sqrt(v) scale + eps)
//   average = ema average + (1 - ema) w
//   copy = w
//
// If the norm is not finite, nothing changes. `step` and `squares` are on the device.
cudaError_t adamw(int64_t n, const AdamWBuffers& buffers, const AdamWRanges& ranges,
                  const AdamWStep* step, const double* squares, float clip, cudaStream_t stream);

}  // namespace hydramix::cuda
