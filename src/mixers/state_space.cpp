// SPDX-License-Identifier: Apache-2.0
#include "mixers/state_space.h"

#include <cmath>

#include "hydramix/error.h"
#include "ops/arithmetic.h"

namespace hydramix {

StateSpaceMixer::StateSpaceMixer(Heads heads, const MixerOptions& o, bool skip) : Mixer(heads, o) {
  HYDRAMIX_CHECK_USAGE(o.dt_min <= o.dt_max, "mixer: dt_min = ", o.dt_min,
                       " is above dt_max = ", o.dt_max, ".");
  HYDRAMIX_CHECK_USAGE(o.dt_limit_low <= o.dt_limit_high, "mixer: dt_limit_low = ", o.dt_limit_low,
                       " is above dt_limit_high = ", o.dt_limit_high, ".");
  A_log = register_parameter("A_log", torch::zeros({heads.H}));
  if (skip) D = register_parameter("D", torch::ones({heads.H}));
  dt_bias = register_parameter("dt_bias", initial_dt_bias(heads.H, o));
}

torch::Tensor initial_dt_bias(int64_t H, const MixerOptions& o) {
  const auto log_dt = torch::rand({H}) * std::log(o.dt_max / o.dt_min) + std::log(o.dt_min);
  const auto dt = log_dt.exp().clamp_min(o.dt_init_floor);
  return dt + torch::log(-torch::expm1(-dt));
}

void check_groups(Heads heads, const MixerOptions& o) {
  HYDRAMIX_CHECK_USAGE(heads.H % o.groups == 0, "mixer: groups = ", o.groups,
                       " does not divide the ", heads.H,
                       " heads. Choose groups so that every group serves as many heads.");
}

torch::Tensor StateSpaceMixer::step(const torch::Tensor& raw, const Rows& rows) const {
  auto dt = torch::softplus(raw + weight(dt_bias, rows));
  if (options_.dt_limit_low > 0 || std::isfinite(options_.dt_limit_high))
    dt = dt.clamp(options_.dt_limit_low, options_.dt_limit_high);
  return rows.valid.defined() ? dt.masked_fill(~rows.valid.unsqueeze(-1), 0) : dt;
}

torch::Tensor StateSpaceMixer::decay_rate(const Rows& rows) const {
  return -weight(A_log, rows).exp();
}

ScanParams StateSpaceMixer::scan_params(const torch::Tensor& params, int64_t begin, int64_t dt,
                                        const Rows& rows) const {
  const int64_t G = options_.groups, N = options_.d_state;
  return {step(params.narrow(2, dt, heads_.H), rows), decay_rate(rows),
          columns(params, begin, G, N), columns(params, begin + G * N, G, N)};
}

std::vector<Columns> StateSpaceMixer::columns_of_directions() const {
  const int64_t GN = options_.groups * options_.d_state;
  return {{"B_f", GN, true, true},          {"C_f", GN, true, true},
          {"B_b", GN, true, true},          {"C_b", GN, true, true},
          {"dt_f", heads_.H, false, false}, {"dt_b", heads_.H, false, false}};
}

Directions StateSpaceMixer::directions_of_columns(const torch::Tensor& params,
                                                  const Rows& rows) const {
  const int64_t GN = options_.groups * options_.d_state, dt = 4 * GN;
  return {scan_params(params, 0, dt, rows),
          scan_params(params, 2 * GN, dt + heads_.H, rows).flipped()};
}

std::vector<torch::Tensor> StateSpaceMixer::pieces(const torch::Tensor& params,
                                                   const std::vector<int64_t>& widths) {
  return params.split_with_sizes(widths, 1);
}

ScanDirection StateSpaceMixer::direction(const torch::Tensor& dt, const torch::Tensor& b,
                                         const torch::Tensor& c, int64_t groups,
                                         const torch::Tensor& x) const {
  const std::vector<int64_t> shape{groups, b.size(1) / groups};
  return {dt.to(arithmetic_type(info().name, "x", x)), b.unflatten(1, shape),
          c.unflatten(1, shape)};
}

StateSpaceMixer::PackedDirections StateSpaceMixer::packed_directions(const torch::Tensor& params,
                                                                     const torch::Tensor& x) const {
  const int64_t G = options_.groups, GN = G * options_.d_state, H = heads_.H;
  const auto p = pieces(params, {GN, GN, GN, GN, H, H, params.size(1) - 4 * GN - 2 * H});
  return {direction(p[4], p[0], p[1], G, x), direction(p[5], p[2], p[3], G, x), p[6]};
}

torch::Tensor StateSpaceMixer::scan_packed(const torch::Tensor& x, const ScanDirection& forward,
                                           const ScanDirection& backward,
                                           const torch::Tensor& delta, const Sequences& sequences,
                                           int64_t shift) const {
  const Rows rows = arithmetic_of(x.unsqueeze(0));
  const auto diagonal = delta.defined() ? delta.to(rows.options.dtype().toScalarType())
                        : D.defined()   ? weight(D, rows)
                                        : torch::zeros({heads_.H}, rows.options);
  return packed_scan(x, forward, backward, weight(dt_bias, rows), decay_rate(rows), diagonal,
                     sequences,
                     {.shift = shift,
                      .tile = options_.tile,
                      .dt_low = options_.dt_limit_low,
                      .dt_high = options_.dt_limit_high,
                      .learned_decays = true});
}

torch::Tensor diagonal_matrix(const torch::Tensor& diagonal, const Rows& rows) {
  const auto d = diagonal.dim() == 1 ? diagonal.view({1, -1, 1}).expand({1, -1, rows.L})
                                     : diagonal.permute({0, 2, 1});
  return torch::diag_embed(d);
}

}  // namespace hydramix
