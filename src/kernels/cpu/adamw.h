// SPDX-License-Identifier: Apache-2.0
// AdamW on flat buffers: the norm of the gradients in one pass, the step in another that reads and
// writes everything once.
#pragma once

#include <cstdint>

namespace hydramix::kernels {

// Values of a task. Tasks, and so the order of sums, do not depend on the number of threads.
constexpr int64_t kAdamRun = 1 << 15;

// Coefficients of one step, for the weights of one group.
struct AdamWCoefficients {
  double gradient_scale;         // clipping, and one over the number of terms of the loss
  double beta1, beta2, epsilon;  // of the moments; epsilon keeps the denominator from zero
  double rate;                   // the learning rate over 1 - beta1^t
  double denominator_scale;      // 1 / sqrt(1 - beta2^t)
  double keep;                   // 1 - decay, the factor of the weights
  double ema;  // share of the old average that is kept; not used without an average
};

// The sum of squares, in float64; NaN or infinite if a value is.
template <typename T>
double sum_of_squares(int64_t n, const T* values);

// m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,  w = keep w - rate m / (sqrt(v) scale + eps),
// average = ema average + (1 - ema) w, where g is the scaled gradient. `average` may be null.
template <typename T>
void adamw(int64_t n, const AdamWCoefficients& step, const T* gradient, T* weight, T* m, T* v,
           T* average);

}  // namespace hydramix::kernels
