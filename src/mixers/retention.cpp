// SPDX-License-Identifier: Apache-2.0
// Linear attention with a fixed decay per head and positions as rotations. For i >= j, I^2 = -1,
//
//   retnet        M_ij = gamma_h^{i-j} Re sum_p q_ip conj(k_jp) e^{I theta_p (i - j)} / sqrt(d)
//                 q_p = q[2p] + I q[2p + 1], theta_p = 10000^{-2p/d}, gamma_h = 1 - 2^{-5-h}
//   transnormer   M_ij = lambda_h^{i-j} sum_c q_ic k_jc cos(theta_hc (i - j))
//                 lambda_h = exp(-8 h / H), theta (H, d) learned
//
// RetNet: Sun et al. 2023, "Retentive Network". The rotation is xPos without its scale. The last
// channel of an odd d is not rotated. TransNormer: the variant of TransNormerLLM (Qin et al. 2023,
// "Scaling TransNormer to 175 billion parameters"): linear attention with exponential decay and
// LRPE-d, q and k after SiLU, no scale. Its decays approach 1 in deeper layers; these are the ones
// of the first. Both models normalise the product afterwards. That norm is not part of the matrix:
// the block's gated norm takes its place.
//
// Rotating q and k each by its own position makes the sum a plain inner product of N
// numbers, N = d or 2 d. So both are scans with constant decay. Cost O(L).
#include <cmath>

#include "hydramix/registry.h"
#include "ops/arithmetic.h"
#include "ops/host_copy.h"
#include "ops/product.h"
#include "ops/scan.h"

namespace hydramix {
namespace {

// cos and sin of the angles by which q and k are rotated at each position: (L, H or 1, channels or
// pairs). Angles are computed in float64: in float32 an angle of 10^5 has an error of 1e-2.
struct Rotation {
  torch::Tensor cos, sin;
};

class DecayedAttention : public Mixer {
 public:
  DecayedAttention(Heads heads, const MixerOptions& options, bool silu)
      : Mixer(heads, options), silu_(silu) {}

  std::vector<Columns> projection() const override {
    const int64_t width = heads_.H * options_.qk_dim;
    return {{"q", width, true, silu_}, {"k", width, true, silu_}};
  }

 protected:
  // position (L) float64 -> (L, H or 1, channels or pairs) float64.
  virtual torch::Tensor angles(const torch::Tensor& position, const Rows& rows) const = 0;
  // t (S, L, H, d) -> (S, L, H, N): t rotated by its position.
  virtual torch::Tensor rotated(const torch::Tensor& t, const Rotation& rotation) const = 0;
  // (H); options are of float64.
  virtual torch::Tensor log_decay(const torch::TensorOptions& options) const = 0;
  virtual double scale() const = 0;

  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto position = torch::arange(rows.L, rows.options.dtype(torch::kFloat64));
    const auto [q, k] = factors(params, rotation_of(position, rows));
    const auto distance = position.unsqueeze(1) - position;
    const auto decay = (log_decay(position.options()).view({-1, 1, 1}) * distance.clamp_min(0))
                           .exp()
                           .tril()
                           .to(rows.options);  // (H, L, L)
    return matrix_product(q.permute({0, 2, 1, 3}), k.permute({0, 2, 3, 1})) * decay;
  }

  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override {
    const Rows rows = arithmetic_of(x.unsqueeze(0));
    const auto type = kernel_input_type(info().name, "x", x);
    const auto [q, k] = factors(params.unsqueeze(0).to(rows.options), rotation_of(sequences, rows));
    const int64_t n = x.size(0), H = heads_.H;
    const auto zero = torch::zeros({H}, rows.options);
    // The limits of dt make every step 1.
    const ScanDirection forward{zero.expand({n, H}), k.squeeze(0).to(type), q.squeeze(0).to(type)};
    return packed_scan(x.to(type), forward, {}, /*dt_bias=*/zero,
                       /*A=*/log_decay(rows.options.dtype(torch::kFloat64)).to(rows.options),
                       /*delta=*/zero, sequences,
                       {.shift = 0, .tile = options_.tile, .dt_low = 1, .dt_high = 1})
        .to(x.scalar_type());
  }

 private:
  struct Factors {
    torch::Tensor q, k;  // (S, L, H, N)
  };
  Factors factors(const torch::Tensor& params, const Rotation& rotation) const {
    const int64_t H = heads_.H, d = options_.qk_dim;
    return {rotated(columns(params, 0, H, d), rotation) * scale(),
            rotated(columns(params, H * d, H, d), rotation)};
  }
  Rotation rotation_of(const torch::Tensor& position, const Rows& rows) const {
    const auto angle = angles(position, rows);
    return {angle.cos().to(rows.options), angle.sin().to(rows.options)};
  }
  // The rotation of packed tokens. On the CPU angles are computed for the longest sequence and then
  // looked up. A CUDA graph is replayed with other sequences, whose positions only the table on the
  // GPU has.
  Rotation rotation_of(const Sequences& sequences, const Rows& rows) const {
    const auto position = sequences.place_of_tokens(rows.options.device());
    if (runs_beside_host(position.device()) || sequences.count() == 1)
      return rotation_of(position.to(torch::kFloat64), rows);
    const auto longest = position.numel() == 0 ? 0 : position.max().item<int64_t>() + 1;
    const auto table = rotation_of(torch::arange(longest, torch::kFloat64), rows);
    return {table.cos.index_select(0, position), table.sin.index_select(0, position)};
  }

  bool silu_;
};

class RetNet : public DecayedAttention {
 public:
  RetNet(Heads heads, const MixerOptions& options)
      : DecayedAttention(heads, options, /*silu=*/false) {}

 protected:
  torch::Tensor angles(const torch::Tensor& position, const Rows&) const override {
    const int64_t d = options_.qk_dim;
    const auto pair = torch::arange(d / 2, position.options());
    return position.view({-1, 1, 1}) * torch::pow(10000.0, pair * (-2.0 / static_cast<double>(d)));
  }
  // Real parts, then imaginary parts: an inner product does not depend on the order.
  torch::Tensor rotated(const torch::Tensor& t, const Rotation& rotation) const override {
    const int64_t d = options_.qk_dim, even = d / 2 * 2;
    const auto re = t.slice(3, 0, even, 2), im = t.slice(3, 1, even, 2);
    return torch::cat({re * rotation.cos - im * rotation.sin, re * rotation.sin + im * rotation.cos,
                       t.narrow(3, even, d - even)},
                      3);
  }
  torch::Tensor log_decay(const torch::TensorOptions& options) const override {
    return torch::log1p(-torch::exp2(-5 - torch::arange(heads_.H, options)));
  }
  double scale() const override { return 1 / std::sqrt(static_cast<double>(options_.qk_dim)); }
};

class TransNormer : public DecayedAttention {
 public:
  TransNormer(Heads heads, const MixerOptions& options)
      : DecayedAttention(heads, options, /*silu=*/true) {
    const int64_t channels = heads.H * options.qk_dim;
    const auto power = torch::arange(channels) * (-2.0 / static_cast<double>(channels));
    theta = register_parameter("theta", torch::pow(10000.0, power).view({heads.H, options.qk_dim}));
  }

 protected:
  torch::Tensor angles(const torch::Tensor& position, const Rows& rows) const override {
    return position.view({-1, 1, 1}) * weight(theta, rows).to(torch::kFloat64);
  }
  torch::Tensor rotated(const torch::Tensor& t, const Rotation& rotation) const override {
    return torch::cat({t * rotation.cos, t * rotation.sin}, 3);
  }
  torch::Tensor log_decay(const torch::TensorOptions& options) const override {
    return torch::arange(heads_.H, options) * (-8.0 / static_cast<double>(heads_.H));
  }
  double scale() const override { return 1; }

 private:
  torch::Tensor theta;  // (H, d)
};

HYDRAMIX_REGISTER_MIXER(
    "retnet", RetNet, .matrix_class = "Semiseparable, fixed decay",
    .formula = "gamma^{i-j} R_i q_i . R_j k_j / sqrt(d) for i >= j", .cost = "O(L)",
    .source = "RetNet, Sun et al. 2023", .sequence_aligned = true, .causal = true, .packed = true,
    .choose = "To compare with linear attention of a fixed decay; as a core of bidirectional.",
    .published = "style=mamba expand=2 headdim=512 d_conv=1 mixer_options.qk_dim=256");

HYDRAMIX_REGISTER_MIXER(
    "transnormer", TransNormer, .matrix_class = "Semiseparable, fixed decay",
    .formula = "lambda^{i-j} sum_c q_ic k_jc cos(theta_c (i - j)) for i >= j", .cost = "O(L)",
    .source = "TransNormerLLM, Qin et al. 2023", .sequence_aligned = true, .causal = true,
    .packed = true,
    .choose = "To compare with linear attention of a fixed decay and learned rotations.",
    .published = "style=mamba expand=1 headdim=128 d_conv=1 mixer_options.qk_dim=128");

}  // namespace
}  // namespace hydramix
