// SPDX-License-Identifier: Apache-2.0
#include "ops/semiseparable.h"

#include <limits>

#include "ops/product.h"

namespace hydramix {
namespace {

// (S, L, G, N) -> (S, L, H, N): every head gets its group's vector.
torch::Tensor per_head(const torch::Tensor& grouped, int64_t H) {
  return grouped.size(2) == H ? grouped : grouped.repeat_interleave(H / grouped.size(2), 2);
}

}  // namespace

torch::Tensor range_sums(const torch::Tensor& l) {
  const int64_t T = l.size(-1);
  const auto ones = torch::ones({T, T}, l.options().dtype(torch::kBool));
  const auto terms = l.unsqueeze(-1).expand({-1, -1, -1, T}).masked_fill(~ones.tril(-1), 0);
  return terms.cumsum(-2).masked_fill(~ones.tril(), -std::numeric_limits<double>::infinity());
}

torch::Tensor flip(const torch::Tensor& t, int64_t dim) { return t.flip({dim}); }

torch::Tensor shift(const torch::Tensor& t, int64_t dim) {
  const auto zero = torch::zeros_like(t.narrow(dim, 0, 1));
  return torch::cat({zero, t.narrow(dim, 0, t.size(dim) - 1)}, dim);
}

ScanParams ScanParams::flipped() const { return {flip(dt), A, flip(b), flip(c)}; }

torch::Tensor semiseparable_matrix(const ScanParams& p) {
  const int64_t H = p.dt.size(2);
  const auto dt = p.dt.permute({0, 2, 1});  // (S, H, L)
  const auto decay = range_sums(dt * p.A.unsqueeze(1)).exp();
  const auto cb =
      matrix_product(p.c.permute({0, 2, 1, 3}), p.b.permute({0, 2, 3, 1}));  // (S, G, L, L)
  return cb.repeat_interleave(H / cb.size(1), 1) * decay * dt.unsqueeze(2);
}

torch::Tensor semiseparable_scan_ref(const torch::Tensor& x, const ScanParams& p) {
  const int64_t L = x.size(1), H = x.size(2);
  const auto b = per_head(p.b, H), c = per_head(p.c, H);
  const auto decay = (p.dt * p.A).exp();                       // (S, L, H)
  auto h = x.new_zeros({x.size(0), H, x.size(3), b.size(3)});  // (S, H, P, N)
  std::vector<torch::Tensor> s;
  for (int64_t t = 0; t < L; ++t) {
    const auto dx = x.select(1, t) * p.dt.select(1, t).unsqueeze(-1);  // (S, H, P)
    h = decay.select(1, t).unsqueeze(-1).unsqueeze(-1) * h +
        dx.unsqueeze(-1) * b.select(1, t).unsqueeze(2);
    s.push_back((h * c.select(1, t).unsqueeze(2)).sum(-1));
  }
  return torch::stack(s, 1);
}

torch::Tensor initial_state_response(const ScanParams& p, const torch::Tensor& h0) {
  const auto decay = (p.dt * p.A).cumsum(1).exp().unsqueeze(-1);             // (S, L, H, 1)
  const auto c = (per_head(p.c, h0.size(0)) * decay).permute({0, 2, 1, 3});  // (S, H, L, N)
  return matrix_product(c, h0.transpose(1, 2)).permute({0, 2, 1, 3});
}

}  // namespace hydramix
