// SPDX-License-Identifier: Apache-2.0
// The selective state-space model of Mamba: every head has its own step and N decays, and b, c and
// the step depend on the input.
//
//   M_ij = sum_n c_in b_jn exp(A_hn sum_{t=j+1}^{i} dt_t) dt_j  (i >= j)  + D [i = j]
//   [ r | b | c ] = x_proj x,   dt = softplus(dt_proj r),   A = -exp(A_log)
//
// Gu & Dao 2023, "Mamba: Linear-time sequence modeling with selective state spaces". There every
// channel is a head: headdim 1, so that A_log is (d_inner, N). A larger headdim shares step, decays
// and skip over the channels of a head; with equal decays of all states that is Mamba-2. b, c and
// the step are computed from the convolved x, by derive(). r has ceil(d_inner / 32) numbers, as
// published for expand 2. Cost O(L), an exponential per channel, state and token.
#include <cmath>

#include "hydramix/error.h"
#include "hydramix/projection.h"
#include "hydramix/registry.h"
#include "mixers/state_space.h"
#include "ops/arithmetic.h"
#include "ops/projection.h"
#include "ops/selective_scan.h"

namespace hydramix {
namespace {

class SelectiveStateSpace : public Mixer {
 public:
  SelectiveStateSpace(Heads heads, const MixerOptions& o)
      : Mixer(heads, o), rank_((heads.channels() + 31) / 32) {
    HYDRAMIX_CHECK_USAGE(o.dt_min <= o.dt_max, "s6: dt_min = ", o.dt_min,
                         " is above dt_max = ", o.dt_max, ".");
    HYDRAMIX_CHECK_USAGE(o.dt_limit_low <= o.dt_limit_high, "s6: dt_limit_low = ", o.dt_limit_low,
                         " is above dt_limit_high = ", o.dt_limit_high, ".");
    x_proj = register_module("x_proj",
                             Projection(heads.channels(), rank_ + 2 * o.d_state, /*bias=*/false));
    // No linear module: a model draws those again, and the published steps must stay.
    auto dt_proj = register_module("dt_proj", std::make_shared<torch::nn::Module>());
    dt_weight = dt_proj->register_parameter("weight", torch::empty({heads.H, rank_}));
    dt_bias = dt_proj->register_parameter("bias", initial_dt_bias(heads.H, o));
    A_log = register_parameter(
        "A_log", torch::arange(1, o.d_state + 1, torch::kFloat32).log().repeat({heads.H, 1}));
    if (o.skip) D = register_parameter("D", torch::ones({heads.H}));
    torch::NoGradGuard no_grad;
    const double bound = 1 / std::sqrt(static_cast<double>(rank_));
    dt_weight.uniform_(-bound, bound);
  }

  // The step before its bias (H), b (N), c (N).
  int64_t params_width() const override { return heads_.H + 2 * options_.d_state; }
  torch::Tensor derive(const torch::Tensor& projected, const torch::Tensor& x) const override {
    const Rows rows = arithmetic_of(x);
    const auto wide = project(x.flatten(2).to(rows.options), weight(x_proj->weight, rows), {});
    const auto parts = wide.split_with_sizes({rank_, 2 * options_.d_state}, 2);
    const auto raw = project(parts[0], weight(dt_weight, rows), {});
    return torch::cat({raw, parts[1]}, 2).to(projected.scalar_type());
  }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const int64_t H = heads_.H, N = options_.d_state;
    auto dt = step(params.narrow(2, 0, H), rows);
    if (rows.valid.defined()) dt = dt.masked_fill(~rows.valid.unsqueeze(-1), 0);
    const auto b = columns(params, H, N, 1), c = columns(params, H + N, N, 1);
    auto M = diagonal_matrix(skip_weight(rows), rows);
    for (int64_t n = 0; n < N; ++n)
      M = M + semiseparable_matrix(
                  {dt, decay_rates(rows).select(1, n), b.narrow(2, n, 1), c.narrow(2, n, 1)});
    return M;
  }

  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override {
    const Rows rows = arithmetic_of(x.unsqueeze(0));
    const int64_t P = heads_.P, N = options_.d_state;
    const auto type = kernel_input_type(info().name, "x", x);
    const auto parts = params.to(type).split_with_sizes({heads_.H, N, N}, 1);
    // Every channel of a head gets the head's step, decays and skip.
    const auto of_channels = [&](const torch::Tensor& t, int64_t dim) {
      auto shape = t.sizes().vec();
      shape.insert(shape.begin() + dim + 1, P);
      return t.unsqueeze(dim + 1).expand(shape).flatten(dim, dim + 1);
    };
    const SelectiveScanParams scan{of_channels(parts[0], 1),
                                   of_channels(decay_rates(rows), 0),
                                   parts[1],
                                   parts[2],
                                   of_channels(skip_weight(rows), 0),
                                   of_channels(weight(dt_bias, rows), 0),
                                   options_.dt_limit_low,
                                   options_.dt_limit_high};
    return selective_scan(x.to(type).flatten(1), scan, sequences, options_.tile)
        .to(x.scalar_type())
        .view(x.sizes());
  }

 private:
  torch::Tensor step(const torch::Tensor& raw, const Rows& rows) const {
    const auto dt = torch::softplus(raw + weight(dt_bias, rows));
    const bool limited = options_.dt_limit_low > 0 || std::isfinite(options_.dt_limit_high);
    return limited ? dt.clamp(options_.dt_limit_low, options_.dt_limit_high) : dt;
  }
  torch::Tensor decay_rates(const Rows& rows) const { return -weight(A_log, rows).exp(); }
  torch::Tensor skip_weight(const Rows& rows) const {
    return D.defined() ? weight(D, rows) : torch::zeros({heads_.H}, rows.options);
  }

  int64_t rank_;
  Projection x_proj{nullptr};        // (d_inner -> rank + 2 N), no bias
  torch::Tensor dt_weight, dt_bias;  // (H, rank), (H)
  torch::Tensor A_log, D;            // (H, N), (H); D is undefined without a skip
};

HYDRAMIX_REGISTER_MIXER(
    "s6", SelectiveStateSpace, .matrix_class = "Semiseparable, selective",
    .formula = "sum_n c_in b_jn exp(A_n dt_{i:j}) dt_j for i >= j", .cost = "O(L)",
    .source = "Mamba (S6), Gu & Dao 2023", .sequence_aligned = true, .causal = true, .packed = true,
    .flat_weights = true, .paper_aligned = true,
    .choose =
        "To compare with Mamba-1, whose decays differ by channel and state; as "
        "a core of bidirectional.",
    .published = "style=mamba expand=2 headdim=1 d_conv=4 mixer_options.d_state=16");

}  // namespace
}  // namespace hydramix
