// SPDX-License-Identifier: Apache-2.0
#include "ops/semiseparable.h"

#include <limits>

#include "ops/product.h"

namespace hydramix {
namespace {

// (..., T) -> (..., T, T): sum of l over (j, i] for i >= j, minus infinity above the diagonal. Each
// entry is summed from its own terms, so that a huge l at one place does not absorb small ones
// after it.
torch::Tensor range_sums(const torch::Tensor& l) {
  const int64_t T = l.size(-1);
  const auto ones = torch::ones({T, T}, l.options().dtype(torch::kBool));
  const auto terms = l.unsqueeze(-1).expand({-1, -1, -1, -1, T}).masked_fill(~ones.tril(-1), 0);
  return terms.cumsum(-2).masked_fill(~ones.tril(), -std::numeric_limits<double>::infinity());
}

// (S, L, G, N) -> (S, L, H, N): every head gets its group's vector.
torch::Tensor per_head(const torch::Tensor& grouped, int64_t H) {
  return grouped.size(2) == H ? grouped : grouped.repeat_interleave(H / grouped.size(2), 2);
}

// (S, L, ...) -> (S, chunks, T, ...), zeros behind the end: dt = x = 0 leaves a state as it is.
torch::Tensor in_chunks(const torch::Tensor& t, int64_t T) {
  const int64_t L = t.size(1), chunks = (L + T - 1) / T;
  std::vector<int64_t> pad(2 * (t.dim() - 1), 0);
  pad.back() = chunks * T - L;
  return torch::constant_pad_nd(t, pad).unflatten(1, std::vector<int64_t>{chunks, T});
}

}  // namespace

torch::Tensor flip(const torch::Tensor& t, int64_t dim) { return t.flip({dim}); }

torch::Tensor shift(const torch::Tensor& t, int64_t dim) {
  const auto zero = torch::zeros_like(t.narrow(dim, 0, 1));
  return torch::cat({zero, t.narrow(dim, 0, t.size(dim) - 1)}, dim);
}

ScanParams ScanParams::flipped() const { return {flip(dt), A, flip(b), flip(c)}; }

torch::Tensor semiseparable_matrix(const ScanParams& p) {
  const int64_t H = p.dt.size(2);
  const auto dt = p.dt.permute({0, 2, 1});  // (S, H, L)
  const auto decay = range_sums((dt * p.A.unsqueeze(1)).unsqueeze(1)).squeeze(1).exp();
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

torch::Tensor semiseparable_scan(const torch::Tensor& x, const ScanParams& p, int64_t tile) {
  const int64_t L = x.size(1), H = x.size(2), T = std::min(tile, L);
  const auto dx = in_chunks(x * p.dt.unsqueeze(-1), T).permute({0, 1, 3, 2, 4});  // (S, K, H, T, P)
  const auto l = in_chunks(p.dt * p.A, T).permute({0, 1, 3, 2});                  // (S, K, H, T)
  const auto b = in_chunks(p.b, T).permute({0, 1, 3, 2, 4});                      // (S, K, G, T, N)
  const auto c = in_chunks(p.c, T).permute({0, 1, 3, 2, 4});
  const int64_t S = x.size(0), K = dx.size(1), heads_per_group = H / b.size(2);

  // Inside a chunk: C B^T is computed once per group and shared by its heads.
  const auto sums = range_sums(l);  // (S, K, H, T, T)
  const auto cb = matrix_product(c, b.transpose(3, 4)).repeat_interleave(heads_per_group, 2);
  auto s = matrix_product(cb * sums.exp(), dx);  // (S, K, H, T, P)

  if (K > 1) {
    // What each chunk leaves behind at its end, then the state at the start of each chunk.
    const auto to_end = sums.select(3, T - 1).exp().unsqueeze(-1);  // (S, K, H, T, 1)
    const auto heads_b = b.repeat_interleave(heads_per_group, 2);
    const auto left = matrix_product((dx * to_end).transpose(3, 4), heads_b);  // (S, K, H, P, N)
    const auto from_start = l.cumsum(3);                                       // (S, K, H, T)
    const auto whole =
        from_start.select(3, T - 1).exp().unsqueeze(-1).unsqueeze(-1);  // (S, K, H, 1, 1)
    auto h = x.new_zeros({S, H, x.size(3), b.size(4)});                 // (S, H, P, N)
    std::vector<torch::Tensor> states;
    for (int64_t k = 0; k < K; ++k) {
      states.push_back(h);
      if (k + 1 < K) h = whole.select(1, k) * h + left.select(1, k);
    }
    const auto heads_c = c.repeat_interleave(heads_per_group, 2) * from_start.exp().unsqueeze(-1);
    s = s + matrix_product(heads_c, torch::stack(states, 1).transpose(3, 4));
  }
  return s.permute({0, 1, 3, 2, 4}).flatten(1, 2).narrow(1, 0, L);
}

torch::Tensor initial_state_response(const ScanParams& p, const torch::Tensor& h0) {
  const auto decay = (p.dt * p.A).cumsum(1).exp().unsqueeze(-1);             // (S, L, H, 1)
  const auto c = (per_head(p.c, h0.size(0)) * decay).permute({0, 2, 1, 3});  // (S, H, L, N)
  return matrix_product(c, h0.transpose(1, 2)).permute({0, 2, 1, 3});
}

}  // namespace hydramix
