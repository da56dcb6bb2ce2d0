// SPDX-License-Identifier: Apache-2.0
// With l = K i + j, exp(l a) = exp(K i a) exp(j a): two tables of about sqrt(L) columns, and a
// product of them. The tables are computed in float64, because in float32 a phase l Im(a) of
// thousands of turns has no correct digit.
#include "ops/exponential_kernel.h"

#include <cmath>

#include "ops/product.h"

namespace hydramix {
namespace {

// exp(stride i a) for i < count: (H, N, count).
torch::Tensor spaced_powers(const torch::Tensor& a, int64_t stride, int64_t count) {
  const auto lags = torch::arange(count, a.options().dtype(torch::kFloat64)) * stride;
  return torch::exp(a.unsqueeze(-1) * lags);
}

}  // namespace

torch::Tensor exponential_kernel(const torch::Tensor& c, const torch::Tensor& a, int64_t L,
                                 torch::ScalarType dtype) {
  const auto K = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(L))));
  const auto coarse = c.unsqueeze(-1) * spaced_powers(a, K, (L + K - 1) / K);  // (H, N, L / K)
  const auto fine = spaced_powers(a, 1, K);                                    // (H or 1, N, K)
  // Re(u v) = Re u Re v - Im u Im v: both terms in one real product.
  const auto rows = torch::cat({torch::real(coarse), -torch::imag(coarse)}, 1).transpose(1, 2);
  const auto columns = torch::cat({torch::real(fine), torch::imag(fine)}, 1);
  return matrix_product(rows.to(dtype), columns.to(dtype)).flatten(1).narrow(1, 0, L);
}

}  // namespace hydramix
