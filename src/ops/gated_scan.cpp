// SPDX-License-Identifier: Apache-2.0
#include "ops/gated_scan.h"

#include <limits>

#include "hydramix/error.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"
#include "ops/product.h"
#include "ops/semiseparable.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The arguments of a call that are not tensors.
struct GatedScanPlan {
  Sequences sequences;
  int64_t tile;
};

class GatedScanFunction : public torch::autograd::Function<GatedScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const GatedScanPlan& plan, const Tensor& x,
                        const Tensor& q, const Tensor& k, const Tensor& g) {
    auto y = torch::empty(x.sizes(), x.options());
    const GatedScanCall call{x, {q, k, g}, plan.sequences, plan.tile};
    const auto states = HYDRAMIX_ON_BACKEND(x, gated_scan_forward, call, y, /*gradients=*/true);
    ctx->save_for_backward({x, q, k, g, states});
    ctx->saved_data["plan"] = hold(plan);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("gated scan");
    const auto in = ctx->get_saved_variables();
    const auto& plan = held<GatedScanPlan>(ctx->saved_data["plan"]);
    const auto like = [](const Tensor& t) { return torch::empty(t.sizes(), t.options()); };
    const auto dx = like(in[0]);
    const GatedScanParams d{like(in[1]), like(in[2]), like(in[3])};
    const GatedScanCall call{in[0], {in[1], in[2], in[3]}, plan.sequences, plan.tile};
    HYDRAMIX_ON_BACKEND(dx, gated_scan_backward, call, in[4], packed_rows(outputs[0]), dx, d);
    return {Tensor(), dx, d.q, d.k, d.g};
  }
};

void check_gated(const Tensor& x, const GatedScanParams& p, const Sequences& sequences,
                 int64_t tile) {
  HYDRAMIX_CHECK(x.defined() && x.dim() == 3 && x.size(1) >= 1 && x.size(2) >= 1,
                 "gated scan: x must be (n, H, P); got ",
                 x.defined() ? concat("shape ", x.sizes()) : "an undefined tensor", ".");
  const bool rounded = x.scalar_type() == torch::kBFloat16 && backend_of(x) == Backend::kCuda;
  HYDRAMIX_CHECK(
      rounded || x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64,
      "gated scan: x must be float32 or float64, or bfloat16 on a GPU; got ", x.scalar_type(),
      " on ", x.device(), ". Convert it first.");
  HYDRAMIX_CHECK(tile >= 1, "gated scan: tile must be at least 1; got ", tile, ".");
  for (const auto& [name, t] : {std::pair{"q", p.q}, {"k", p.k}, {"g", p.g}})
    HYDRAMIX_CHECK(t.defined() && t.dim() == 3 && t.size(0) == x.size(0) &&
                       t.size(1) == x.size(1) && t.size(2) >= 1 && t.sizes() == p.q.sizes() &&
                       (t.scalar_type() == x.scalar_type() ||
                        (rounded && name[0] == 'g' && t.scalar_type() == torch::kFloat32)) &&
                       t.device() == x.device(),
                   "gated scan: ", name, " must be ", x.scalar_type(), " (n, H, N) on ", x.device(),
                   " for x of shape ", x.sizes(), ", with the same N as q; got ",
                   t.defined()
                       ? concat(t.scalar_type(), " of shape ", t.sizes(), " on ", t.device())
                       : "an undefined tensor",
                   ".");
  check_offsets("gated scan", sequences.offsets(), x.size(0));
}

// (..., s, N) -> the same: entry j is the sum of the entries after j.
Tensor sums_after(const Tensor& g) {
  const auto next =
      torch::cat({g.narrow(-2, 1, g.size(-2) - 1), torch::zeros_like(g.narrow(-2, 0, 1))}, -2);
  return next.flip({-2}).cumsum(-2).flip({-2});
}

}  // namespace

Tensor gated_scan(const Tensor& x, const GatedScanParams& p, const Sequences& sequences,
                  int64_t tile) {
  check_gated(x, p, sequences, tile);
  const variable_list in{packed_rows(x), packed_rows(p.q), packed_rows(p.k), packed_rows(p.g)};
  const bool gradients = wants_gradient(in);
  if (!x.is_cpu() &&
      !(backend_of(x) == Backend::kCuda && on_cuda::gated_scan_fits(x, p.q.size(2), gradients))) {
    const auto wide = [](const Tensor& t) {
      return t.scalar_type() == torch::kBFloat16 ? t.to(torch::kFloat32) : t;
    };
    return gated_scan_by_halves(wide(x), {wide(p.q), wide(p.k), wide(p.g)}, sequences)
        .to(x.scalar_type());
  }
  const GatedScanPlan plan{sequences, tile};
  if (gradients) return GatedScanFunction::apply(plan, in[0], in[1], in[2], in[3]);
  auto y = torch::empty(x.sizes(), x.options());
  const GatedScanCall call{in[0], {in[1], in[2], in[3]}, sequences, tile};
  HYDRAMIX_ON_BACKEND(y, gated_scan_forward, call, y, /*gradients=*/false);
  return y;
}

Tensor gated_scan_by_halves(const Tensor& x, const GatedScanParams& p, const Sequences& sequences) {
  const int64_t n = x.size(0), H = x.size(1), N = p.q.size(2);
  int64_t places = 1;
  while (places < n) places *= 2;
  // (n, H, width) -> (H, places, width), zero after the tokens.
  const auto padded = [&](const Tensor& t) {
    return torch::constant_pad_nd(t, {0, 0, 0, 0, 0, places - n}).transpose(0, 1);
  };
  // A gate of zero at the first token of each sequence separates it from the one before.
  const auto first = (sequences.place_of_tokens(x.device()) == 0).view({-1, 1, 1});
  const auto g = padded(p.g.masked_fill(first, -std::numeric_limits<double>::infinity()));
  const auto q = padded(p.q), k = padded(p.k), v = padded(x);
  auto y = (q * k).sum(-1, /*keepdim=*/true) * v;
  for (int64_t s = 1; s < places; s *= 2) {
    // Pairs of s positions: (H, pairs, s, width) each.
    const auto half = [&](const Tensor& t, int64_t side) {
      return t.reshape({H, places / (2 * s), 2, s, t.size(2)}).select(2, side);
    };
    const auto enter = half(q, 1) * half(g, 1).cumsum(-2).exp();
    const auto leave = (half(k, 0) * sums_after(half(g, 0)).exp()).transpose(-2, -1);
    const auto left = half(v, 0);
    const auto right = s < N ? enter.matmul(leave).matmul(left) : enter.matmul(leave.matmul(left));
    y = y + torch::stack({torch::zeros_like(right), right}, 2).reshape(y.sizes());
  }
  return y.narrow(1, 0, n).transpose(0, 1);
}

Tensor gated_scan_ref(const Tensor& x, const GatedScanParams& p) {
  const auto gate = p.g.exp();
  auto h = x.new_zeros({x.size(0), x.size(2), p.q.size(3), x.size(3)});  // (S, H, N, P)
  std::vector<Tensor> y;
  for (int64_t t = 0; t < x.size(1); ++t) {
    h = gate.select(1, t).unsqueeze(-1) * h +
        p.k.select(1, t).unsqueeze(-1) * x.select(1, t).unsqueeze(-2);
    y.push_back((p.q.select(1, t).unsqueeze(-1) * h).sum(-2));
  }
  return torch::stack(y, 1);
}

Tensor gated_matrix(const GatedScanParams& p) {
  Tensor M;
  for (int64_t n = 0; n < p.q.size(3); ++n) {
    const auto channel = [&](const Tensor& t) { return t.select(3, n).transpose(1, 2); };
    const auto decay = range_sums(channel(p.g)).exp();  // (S, H, L, L)
    const auto term = channel(p.q).unsqueeze(-1) * channel(p.k).unsqueeze(-2) * decay;
    M = M.defined() ? M + term : term;
  }
  return M;
}

}  // namespace hydramix
