// SPDX-License-Identifier: Apache-2.0
// The quasiseparable family: Hydra, and the two variants of the paper's table 2 in which both
// directions share b and c. Cost O(L). Every block strictly off the diagonal has rank <= N.
#include "mixers/quasiseparable.h"

#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "ops/narrow_linear.h"

namespace hydramix {

QuasiseparableMixer::QuasiseparableMixer(Heads heads, const MixerOptions& options)
    : StateSpaceMixer(heads, options) {
  fc_D = register_module("fc_D", Projection(heads.channels(), heads.H, /*bias=*/false));
}

torch::Tensor QuasiseparableMixer::derive(const torch::Tensor& projected,
                                          const torch::Tensor& x) const {
  const Rows rows = arithmetic_of(x);
  const auto delta =
      narrow_linear(x.flatten(2).flatten(0, 1), weight(fc_D->weight, rows), weight(D, rows))
          .view({x.size(0), x.size(1), heads_.H});
  return torch::cat({projected, delta.to(projected.scalar_type())}, 2);
}

torch::Tensor QuasiseparableMixer::delta(const torch::Tensor& params) const {
  return params.narrow(2, projection_width(), heads_.H);
}

torch::Tensor QuasiseparableMixer::matrix(const torch::Tensor& params, const Rows& rows) const {
  const auto both = directions(params, rows);
  const auto lower = shift(semiseparable_matrix(both.forward), 2);  // rows move down by one
  const auto upper = shift(semiseparable_matrix(both.backward), 2).flip({2, 3});  // and up by one
  return lower + upper + diagonal_matrix(delta(params), rows);
}

torch::Tensor QuasiseparableMixer::packed_product(const torch::Tensor& x,
                                                  const torch::Tensor& params,
                                                  const Sequences& sequences) const {
  const auto both = packed_directions_of(params, x, sequences);
  return scan_packed(x, both.forward, both.backward, both.rest, sequences, /*shift=*/1);
}

Hydra::Hydra(Heads heads, const MixerOptions& options) : QuasiseparableMixer(heads, options) {
  check_groups(heads, options);
  if (options.learn_initial_states)
    init_states =
        register_parameter("init_states", torch::zeros({heads.H, heads.P, options.d_state}));
}

HydraShape Hydra::inner_shape() const {
  HydraShape shape{heads_.H, heads_.P, options_.groups, options_.d_state, 0, 0, {}};
  shape.scan = {
      .tile = options_.tile, .dt_low = options_.dt_limit_low, .dt_high = options_.dt_limit_high};
  return shape;
}

HydraWeights Hydra::inner_weights(const torch::Tensor& w) const {
  const Rows rows = arithmetic_of(w);
  HydraWeights weights;
  weights.dt_bias = weight(dt_bias, rows);
  weights.A = decay_rate(rows);
  weights.D = weight(D, rows);
  weights.fc_D = weight(fc_D->weight, rows);
  weights.fc_D_copy = fc_D->copy();
  return weights;
}

Directions Hydra::directions(const torch::Tensor& params, const Rows& rows) const {
  return directions_of_columns(params, rows);
}

Hydra::PackedDirections Hydra::packed_directions_of(const torch::Tensor& params,
                                                    const torch::Tensor& x,
                                                    const Sequences&) const {
  return packed_directions(params, x);
}

torch::Tensor Hydra::response(const torch::Tensor& params, const Rows& rows) const {
  if (!init_states.defined()) return {};
  const auto both = directions(params, rows);
  const auto h0 = weight(init_states, rows);
  return shift(initial_state_response(both.forward, h0)) +
         flip(shift(initial_state_response(both.backward, h0)));
}

namespace {

// Both directions and all heads share b and c: one group with state size H d.
class QuasiseparableDd : public QuasiseparableMixer {
 public:
  using QuasiseparableMixer::QuasiseparableMixer;

  std::vector<Columns> projection() const override {
    const int64_t N = heads_.H * options_.qk_dim;
    return {{"B", N, true, true},
            {"C", N, true, true},
            {"dt_f", heads_.H, false, false},
            {"dt_b", heads_.H, false, false}};
  }

 protected:
  Directions directions(const torch::Tensor& params, const Rows& rows) const override {
    const int64_t N = heads_.H * options_.qk_dim;
    const auto b = columns(params, 0, 1, N), c = columns(params, N, 1, N), A = decay_rate(rows);
    const auto dt_f = step(params.narrow(2, 2 * N, heads_.H), rows);
    const auto dt_b = step(params.narrow(2, 2 * N + heads_.H, heads_.H), rows);
    return {ScanParams{dt_f, A, b, c}, ScanParams{dt_b, A, b, c}.flipped()};
  }
  PackedDirections packed_directions_of(const torch::Tensor& params, const torch::Tensor& x,
                                        const Sequences&) const override {
    const int64_t N = heads_.H * options_.qk_dim, H = heads_.H;
    const auto p = pieces(params, {N, N, H, H, H});
    return {direction(p[2], p[0], p[1], 1, x), direction(p[3], p[0], p[1], 1, x), p[4]};
  }
};

// b and c are learned per position and dt is softplus(dt_bias), so only the diagonal depends on the
// input.
class QuasiseparableDi : public QuasiseparableMixer {
 public:
  QuasiseparableDi(Heads heads, const MixerOptions& options) : QuasiseparableMixer(heads, options) {
    BC = register_parameter("BC", torch::empty({options.max_length, 2 * heads.H * options.qk_dim}));
    torch::nn::init::xavier_normal_(BC);
  }

 protected:
  Directions directions(const torch::Tensor&, const Rows& rows) const override {
    const int64_t N = heads_.H * options_.qk_dim;
    auto bc = weight(BC, rows).narrow(0, 0, rows.L).expand({rows.S, rows.L, 2 * N});
    // Learned b and c at positions after the end of a shorter sequence must not contribute.
    if (rows.valid.defined()) bc = bc.masked_fill(~rows.valid.unsqueeze(-1), 0);
    const auto dt = step(torch::zeros({rows.S, rows.L, heads_.H}, rows.options), rows);
    const ScanParams forward{dt, decay_rate(rows), columns(bc, 0, 1, N), columns(bc, N, 1, N)};
    return {forward, forward.flipped()};
  }
  // b and c are weights, so they are not rounded even if x is bfloat16.
  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override {
    const auto type = arithmetic_of(x.unsqueeze(0)).options.dtype().toScalarType();
    return QuasiseparableMixer::packed_product(x.to(type), params.to(type), sequences)
        .to(x.scalar_type());
  }
  PackedDirections packed_directions_of(const torch::Tensor& params, const torch::Tensor& x,
                                        const Sequences& sequences) const override {
    const Rows rows = arithmetic_of(x.unsqueeze(0));
    std::vector<torch::Tensor> each{weight(BC, rows).narrow(0, 0, 0)};
    const auto& offsets = sequences.offsets();
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
      each.push_back(weight(BC, rows).narrow(0, 0, offsets[s + 1] - offsets[s]));
    const auto bc = torch::cat(each);  // (n, 2 N)
    const int64_t N = bc.size(1) / 2;
    const auto raw = torch::zeros({x.size(0), heads_.H}, rows.options);
    const auto both = direction(raw, bc.narrow(1, 0, N), bc.narrow(1, N, N), 1, x);
    return {both, both, params};
  }

 private:
  torch::Tensor BC;  // (max_length, 2 H d): b, then c
};

HYDRAMIX_REGISTER_MIXER(
    "hydra", Hydra, .matrix_class = "Quasiseparable",
    .formula = "c_i A_{i:j} b_j off the diagonal, delta_i on it", .cost = "O(L)",
    .source = "Hydra, Hwang et al. 2024", .sequence_aligned = true, .packed = true,
    .flat_weights = true, .paper_aligned = true,
    .choose =
        "By default: it reads both directions at linear cost and has the "
        "lowest loss in our comparison.",
    .published = "style=mamba expand=2 headdim=64 d_conv=7 mixer_options.d_state=64");

HYDRAMIX_REGISTER_MIXER(
    "quasiseparable_dd", QuasiseparableDd, .matrix_class = "Quasiseparable",
    .formula = "as hydra, b and c shared by both directions", .cost = "O(L)",
    .source = "Hydra, Hwang et al. 2024, table 2", .sequence_aligned = true, .packed = true,
    .paper_aligned = true,
    .choose = "To reproduce table 2 of the Hydra paper: both directions share b and c.");

HYDRAMIX_REGISTER_MIXER(
    "quasiseparable_di", QuasiseparableDi, .matrix_class = "Quasiseparable",
    .formula = "as quasiseparable_dd, b, c and dt learned per position", .cost = "O(L)",
    .source = "Hydra, Hwang et al. 2024, table 2", .extendable = false, .packed = true,
    .choose =
        "To reproduce table 2 of the Hydra paper: a quasiseparable matrix learned per position.");

}  // namespace
}  // namespace hydramix
