// SPDX-License-Identifier: Apache-2.0
#include "ops/toeplitz.h"

namespace hydramix {

int64_t fast_fft_size(int64_t n) {
  for (;; ++n) {
    int64_t rest = n;
    for (const int64_t prime : {2, 3, 5})
      while (rest % prime == 0) rest /= prime;
    if (rest == 1) return n;
  }
}

torch::Tensor toeplitz_matrix(const torch::Tensor& t) {
  const int64_t L = (t.size(2) + 1) / 2;
  const auto place = torch::arange(L, t.options().dtype(torch::kInt64));
  const auto lag = place.unsqueeze(1) - place.unsqueeze(0);  // (L, L): i - j
  return t.index_select(2, (lag + (L - 1)).flatten()).unflatten(2, std::vector<int64_t>{L, L});
}

torch::Tensor toeplitz_product(const torch::Tensor& t, const torch::Tensor& x) {
  const int64_t L = x.size(1);
  // A cyclic product of length n >= 2 L - 1 holds every lag once: lag k at index k mod n.
  const int64_t n = fast_fft_size(2 * L - 1);
  const auto gap = torch::zeros({t.size(0), t.size(1), n - (2 * L - 1)}, t.options());
  const auto cyclic = torch::cat({t.narrow(2, L - 1, L), gap, t.narrow(2, 0, L - 1)}, 2);
  const auto kernel = torch::fft::rfft(cyclic).unsqueeze(2);    // (S or 1, H, 1, n / 2 + 1)
  const auto v = torch::fft::rfft(x.permute({0, 2, 3, 1}), n);  // (S, H, P, n / 2 + 1)
  return torch::fft::irfft(kernel * v, n).narrow(3, 0, L).permute({0, 3, 1, 2});
}

}  // namespace hydramix
