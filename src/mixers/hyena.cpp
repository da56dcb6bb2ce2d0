// SPDX-License-Identifier: Apache-2.0
// Hyena: gates from the data and long convolutions in turn.
//
//   M = D_{g_0} T_{n-2} D_{g_1} ... T_0 D_{g_{n-1}},   T_o = Toeplitz(k_o) + diag(D_o)
//
// n = order. D_g is the diagonal matrix of a gate, which the input projection gives for every token
// and head. The kernels k_o are those of mixers/hyena_filter.h. The causal form has lags >= 0 only;
// the bidirectional form has a second network for the others. With headdim 1 every channel has its
// own gates and kernels, as published.
//
// Poli et al. 2023, Hyena Hierarchy: Towards Larger Convolutional Language Models. Cost
// O(n L log L). M is sequence aligned for n = 2, and for every n if it is causal. Otherwise an
// inner gate lets later tokens change the leading block.
#include "hydramix/registry.h"
#include "mixers/hyena_filter.h"
#include "mixers/long_convolution.h"
#include "ops/product.h"
#include "ops/toeplitz.h"

namespace hydramix {
namespace {

class Hyena : public Mixer {
 public:
  Hyena(Heads heads, const MixerOptions& options, int64_t directions = 1)
      : Mixer(heads, options), convolutions_(options.order - 1) {
    filter = register_module(
        "filter", std::make_shared<HyenaFilter>(heads.H * convolutions_, directions, options));
    if (options.skip) D = register_parameter("D", torch::randn({heads.H * convolutions_}));
  }

  std::vector<Columns> projection() const override {
    std::vector<Columns> gates;
    for (int64_t n = 0; n < options_.order; ++n)
      gates.push_back({"gate" + std::to_string(n), heads_.H, /*conv=*/true, /*silu=*/false});
    return gates;
  }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto all = lags(rows);
    auto M = torch::diag_embed(gate(params, convolutions_).transpose(1, 2));  // (S, H, L, L)
    for (int64_t o = 0; o < convolutions_; ++o) {
      const auto rows_of_M = gate(params, convolutions_ - 1 - o).transpose(1, 2).unsqueeze(3);
      M = rows_of_M * matrix_product(toeplitz_matrix(all[o]), M);
    }
    return M;
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    const auto all = lags(rows);
    auto v = gate(params, convolutions_).unsqueeze(3) * x;
    for (int64_t o = 0; o < convolutions_; ++o)
      v = gate(params, convolutions_ - 1 - o).unsqueeze(3) * convolved(all[o], v);
    return v;
  }

 private:
  // (S, L, H)
  torch::Tensor gate(const torch::Tensor& params, int64_t n) const {
    return params.narrow(2, n * heads_.H, heads_.H);
  }

  // Every T_o as (1, H, 2 L - 1), lag -(L - 1) first.
  std::vector<torch::Tensor> lags(const Rows& rows) const {
    // Kernel h (n - 1) + o is that of head h in T_o.
    const auto k = filter->kernels(info().name, rows)
                       .unflatten(1, std::vector<int64_t>{heads_.H, convolutions_});
    std::vector<torch::Tensor> all;
    for (int64_t o = 0; o < convolutions_; ++o) {
      all.push_back(all_lags(k.select(2, o)));
      if (!D.defined()) continue;
      const auto skip = weight(D, rows).view({heads_.H, convolutions_}).select(1, o).unsqueeze(1);
      all.back() = all.back() + torch::constant_pad_nd(skip, {rows.L - 1, rows.L - 1});
    }
    return all;
  }

  int64_t convolutions_;  // n - 1
  std::shared_ptr<HyenaFilter> filter;
  torch::Tensor D;  // (H (n - 1)), undefined without a skip
};

class HyenaBidirectional : public Hyena {
 public:
  HyenaBidirectional(Heads heads, const MixerOptions& options) : Hyena(heads, options, 2) {}

  static MixerInfo info_with(const MixerInfo& registered, const MixerOptions& options) {
    MixerInfo info = registered;
    info.sequence_aligned = options.order == 2;
    return info;
  }
};

HYDRAMIX_REGISTER_MIXER(
    "hyena", Hyena, .matrix_class = "products of diagonals and Toeplitz",
    .formula = "D_{g_0} T_{n-2} D_{g_1} ... T_0 D_{g_{n-1}}, T lower", .cost = "O(L log L)",
    .source = "Hyena, Poli et al. 2023", .sequence_aligned = true, .causal = true,
    .choose =
        "To compare with long convolutions between gates that depend on the data, in decoders.",
    .published = "style=plain expand=1 headdim=1 bias=true");

// The flags are those of order 2; info_with() has those of the others.
HYDRAMIX_REGISTER_MIXER(
    "hyena_bidirectional", HyenaBidirectional, .matrix_class = "products of diagonals and Toeplitz",
    .formula = "D_{g_0} T_{n-2} D_{g_1} ... T_0 D_{g_{n-1}}", .cost = "O(L log L)",
    .source = "Hyena, Poli et al. 2023", .sequence_aligned = true,
    .choose =
        "To compare with long convolutions between gates that depend on the data, in encoders.",
    .note =
        "It is sequence aligned with order 2 only: an inner gate, of order 3 or more, may be later "
        "than both positions.",
    .published = "style=plain expand=1 headdim=1 bias=true");

}  // namespace
}  // namespace hydramix
