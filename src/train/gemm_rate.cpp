// SPDX-License-Identifier: Apache-2.0
#include "train/gemm_rate.h"

#include <algorithm>
#include <chrono>

#include "ops/product.h"

namespace hydramix {

double gemm_rate(torch::Device device, torch::ScalarType type) {
  torch::NoGradGuard no_grad;
  const int64_t n = device.is_cuda() ? 4096 : 768;
  const auto a = torch::ones({n, n}, torch::TensorOptions(device).dtype(type));
  auto c = torch::empty_like(a);
  double best = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&](auto since) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  };
  for (int round = 0; round < 3 || (seconds(start) < 0.1 && round < 100); ++round) {
    const auto begin = std::chrono::steady_clock::now();
    matrix_product_into(c, a, a);
    c[0][0].item();  // a GPU answers when it is done
    const auto size = static_cast<double>(n);
    best = std::max(best, 2 * size * size * size / seconds(begin));
  }
  return best;
}

}  // namespace hydramix
