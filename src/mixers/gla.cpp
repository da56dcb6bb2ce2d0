// SPDX-License-Identifier: Apache-2.0
// Gated linear attention: a gate for every channel of the keys, computed from the input.
//
//   M_ij = sum_n q_in k_jn prod_{m=j+1}^{i} alpha_mn / sqrt(d)   for i >= j
//   alpha_m = sigmoid(gk_proj l_m)^{1/16}
//
// l_m are 16 columns of the input projection, not convolved. derive() replaces them by the H d
// logits of the gates, so that gk_proj in_proj is the published projection of low rank.
//
// Yang et al. 2024, "Gated linear attention transformers with hardware-efficient training". The
// norm of each head that follows there is not part of the matrix; the block's gated norm takes its
// position. Cost O(L). With alpha = exp(dt A), k = dt b, one group per head and no scale it is the
// scan of Mamba-2.
#include <cmath>

#include "hydramix/projection.h"
#include "hydramix/registry.h"
#include "ops/arithmetic.h"
#include "ops/gated_scan.h"
#include "ops/projection.h"

namespace hydramix {
namespace {

constexpr int64_t kGateRank = 16;
constexpr double kGateTemperature = 16;

class GatedLinearAttention : public Mixer {
 public:
  GatedLinearAttention(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    gk_proj = register_module("gk_proj", Projection(kGateRank, width(), /*bias=*/true));
  }

  std::vector<Columns> projection() const override {
    return {{"q", width(), true, false},
            {"k", width(), true, false},
            {"gate", kGateRank, false, false}};
  }

  // q, k, the logits of the gates.
  int64_t params_width() const override { return 3 * width(); }
  torch::Tensor derive(const torch::Tensor& projected, const torch::Tensor& x) const override {
    const Rows rows = arithmetic_of(x);
    const auto parts = projected.split_with_sizes({2 * width(), kGateRank}, 2);
    const auto logits = project(parts[1].to(rows.options), weight(gk_proj->weight, rows),
                                weight(gk_proj->bias, rows));
    return torch::cat({parts[0], logits.to(projected.scalar_type())}, 2);
  }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows&) const override {
    return gated_matrix(factors(params));
  }

  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override {
    const auto arithmetic = arithmetic_of(x.unsqueeze(0)).options.dtype().toScalarType();
    // On a GPU tensor cores multiply bfloat16; gates are not rounded.
    const auto type = kernel_input_type(info().name, "x", x);
    const auto [q, k, g] = factors(params.to(arithmetic).unsqueeze(0));
    return gated_scan(x.to(type), {q.squeeze(0).to(type), k.squeeze(0).to(type), g.squeeze(0)},
                      sequences, options_.tile)
        .to(x.scalar_type());
  }

 private:
  int64_t width() const { return heads_.H * options_.qk_dim; }
  // (S, L, H, d) each; the scale is part of q.
  GatedScanParams factors(const torch::Tensor& params) const {
    const int64_t H = heads_.H, d = options_.qk_dim;
    return {columns(params, 0, H, d) / std::sqrt(static_cast<double>(d)),
            columns(params, width(), H, d),
            torch::log_sigmoid(columns(params, 2 * width(), H, d)) / kGateTemperature};
  }

  Projection gk_proj{nullptr};  // (16 -> H d)
};

HYDRAMIX_REGISTER_MIXER(
    "gla", GatedLinearAttention, .matrix_class = "Semiseparable, gated",
    .formula = "sum_n q_in k_jn prod_{j<m<=i} alpha_mn / sqrt(d) for i >= j", .cost = "O(L)",
    .source = "GLA, Yang et al. 2024", .sequence_aligned = true, .causal = true, .packed = true,
    .choose =
        "To compare with linear attention that forgets by channel; as a core of bidirectional.",
    .published = "style=mamba expand=1 headdim=192 d_conv=1 mixer_options.qk_dim=96");

}  // namespace
}  // namespace hydramix
