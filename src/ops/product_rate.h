// SPDX-License-Identifier: Apache-2.0
// The rate of matrix products on this CPU, compared with the peak of its FMA units. A BLAS that is
// older than the CPU silently falls back to slow kernels; these rates reveal that.
#pragma once

#include <string>
#include <vector>

namespace hydramix {

// GFLOP/s in float32 with the current number of threads.
struct ProductRates {
  double fma_peak = 0;  // fused multiply-adds on registers, best available instruction set
  double ours = 0;      // matrix_product() of (512 x 768) (768 x 1536)
  double libtorch = 0;  // torch::mm() of the same
};

// The best of a few interleaved runs of all three. Takes 0.2 s on one thread.
ProductRates measure_product_rates();

// The BLAS library that LibTorch uses and, if the library reports it, the kernels it chose.
std::string libtorch_blas();

// One line, with advice, for each product that reaches less than half of the peak.
std::vector<std::string> product_warnings(const ProductRates& rates);

}  // namespace hydramix
