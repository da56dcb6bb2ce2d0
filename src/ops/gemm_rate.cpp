// SPDX-License-Identifier: Apache-2.0
#include "ops/gemm_rate.h"

#include <algorithm>
#include <chrono>

#include "ops/product.h"
#include "ops/product_rate.h"

namespace hydramix {

double gemm_rate(torch::Device device, torch::ScalarType type) {
  if (device.is_cpu()) return 1e9 * measure_product_rates().ours;
  using Clock = std::chrono::steady_clock;
  torch::NoGradGuard no_grad;
  constexpr int64_t n = 4096;
  const auto a = torch::ones({n, n}, torch::TensorOptions(device).dtype(type));
  auto c = torch::empty_like(a);
  double best = 0, spent = 0;
  // A tenth of a second, so that the clock of an idle GPU has risen.
  for (int round = 0; round < 3 || (spent < 0.1 && round < 100); ++round) {
    const auto begin = Clock::now();
    matrix_product_into(c, a, a);
    c[0][0].item();  // waits for the product
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * n * n * n / seconds);
    spent += seconds;
  }
  return best;
}

}  // namespace hydramix
