// SPDX-License-Identifier: Apache-2.0
// Fourier matrices along the sequence, applied by real FFTs, forward and backward, in O(n log n)
// for each channel. (The gradient of LibTorch's own rfft is a complex FFT of twice the work.)
#pragma once

#include <functional>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

// x (S, L, H, P), L <= n -> (S, L, H, P): y_i = sum_j cos(2 pi i j / n) x_j.
torch::Tensor cosine_transform(const torch::Tensor& x, int64_t n);

// x (S, L, H, P) -> (S, L, 2 H, P): sum_j exp(-2 pi i j k / L) x_j, real parts first, then
// imaginary parts.
torch::Tensor fourier_transform(const torch::Tensor& x);

// The smallest n' >= n without a prime factor above 5: FFTs of such sizes are fast, and padding
// with zeros does not change the result.
int64_t fast_fft_size(int64_t n);

// The number of FFTs of length n per batch on the CPU: few enough to stay in cache, enough to fill
// the vector registers. At n = 131072, batches of 4 take a sixth of the time of batches of 64.
int64_t fft_batch_size(int64_t n);

}  // namespace hydramix
