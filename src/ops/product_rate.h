// SPDX-License-Identifier: Apache-2.0
// How fast matrix products are on this CPU, beside the peak of its FMA units. A BLAS older than the
// CPU silently falls back to slow kernels; these rates show it.
#pragma once

#include <string>
#include <vector>

namespace hydramix {

// GFLOP/s in float32 with the present number of threads.
struct ProductRates {
  double fma_peak = 0;  // fused multiply-adds on registers, by the best instruction set there is
  double ours = 0;      // matrix_product() of (512 x 768) (768 x 1536)
  double libtorch = 0;  // torch::mm() of the same
};

// Best of a few runs, the three in turn. Takes a fifth of a second on one thread.
ProductRates measure_product_rates();

// The library behind LibTorch's products and, where it tells, the kernels that it chose.
std::string libtorch_blas();

// One line for each product that reaches less than half of the peak, with the remedy.
std::vector<std::string> product_warnings(const ProductRates& rates);

}  // namespace hydramix
