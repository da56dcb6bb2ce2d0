// SPDX-License-Identifier: Apache-2.0
// Any causal mixer in both directions (Hydra, section 3.3 and the heuristics of table 3). With C_f
// and C_b the matrices of `core` for the sequence and for its reverse, each from its own columns,
//
//   quasi   y = shift(C_f x) + flip(shift(C_b flip(x))) + (D + fc_D x) * x    one matrix
//   add     y = C_f x + flip(C_b flip(x)) + D x                               one matrix
//   mult    y = (C_f x) * flip(C_b flip(x)), entry by entry                   two matrices
//   concat  y = [ C_f x, flip(C_b flip(x)) ]                                  two matrices
//
// shift() moves both triangles off the diagonal, which D + fc_D x then fills freely. In quasi and
// add the core has no skip of its own. In mult and concat it has.
//
// Both directions use one set of core weights, as Hydra shares A and dt_bias, or one set each
// (own_weights). Cost: that of the core, twice. If the core is a recurrence of state size N, every
// block strictly off the diagonal of quasi and add has rank <= N.
#include "hydramix/error.h"
#include "hydramix/projection.h"
#include "hydramix/registry.h"
#include "mixers/state_space.h"
#include "ops/arithmetic.h"
#include "ops/narrow_linear.h"
#include "ops/reversal.h"

namespace hydramix {
namespace {

enum class Joining { kQuasi, kAdd, kMult, kConcat };

Joining joining_of(const MixerOptions& options) {
  return options.combine == "quasi"  ? Joining::kQuasi
         : options.combine == "add"  ? Joining::kAdd
         : options.combine == "mult" ? Joining::kMult
                                     : Joining::kConcat;
}

class BidirectionalCore : public Mixer {
 public:
  BidirectionalCore(Heads heads, const MixerOptions& options)
      : Mixer(heads, options), joining_(joining_of(options)) {
    MixerOptions inner = options;
    inner.skip = options.skip && has_branches();
    if (options.own_weights) {
      forward_ = register_module("forward", make_mixer(options.core, heads, inner));
      backward_ = register_module("backward", make_mixer(options.core, heads, inner));
    } else {
      forward_ = backward_ = register_module("core", make_mixer(options.core, heads, inner));
    }
    if (!has_branches() && options.skip) D = register_parameter("D", torch::ones({heads.H}));
    if (joining_ == Joining::kQuasi)
      fc_D = register_module("fc_D", Projection(heads.channels(), heads.H, /*bias=*/false));
  }

  static MixerInfo info_with(const MixerInfo& registered, const MixerOptions& options);

  std::vector<Columns> projection() const override;
  // The core's params forward and backward, then, for quasi, the diagonal (H).
  int64_t params_width() const override {
    return 2 * forward_->params_width() + (joining_ == Joining::kQuasi ? heads_.H : 0);
  }
  torch::Tensor derive(const torch::Tensor& projected, const torch::Tensor& x) const override;

  // The branches of the core. mult and concat have the forward ones first, then the backward ones.
  int64_t branches() const override { return (has_branches() ? 2 : 1) * forward_->branches(); }
  int64_t combined_heads() const override {
    return (joining_ == Joining::kConcat ? 2 : 1) * forward_->combined_heads();
  }
  torch::Tensor combine(const torch::Tensor& y) const override;

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override;
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override;
  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override;
  torch::Tensor response(const torch::Tensor& params, const Rows& rows) const override;

 private:
  bool has_branches() const { return joining_ == Joining::kMult || joining_ == Joining::kConcat; }
  // The columns of one direction, of params (..., params_width).
  torch::Tensor forward_params(const torch::Tensor& params) const {
    return params.narrow(-1, 0, forward_->params_width());
  }
  torch::Tensor backward_params(const torch::Tensor& params) const {
    return params.narrow(-1, forward_->params_width(), forward_->params_width());
  }
  // The diagonal of one matrix, (..., H) or (H); undefined if there is none.
  torch::Tensor diagonal(const torch::Tensor& params, const Rows& rows) const;
  // Outputs of both directions, already shifted for quasi, with heads in dimension `dim`. The
  // diagonal is added by its caller.
  torch::Tensor joined(const torch::Tensor& y_f, const torch::Tensor& y_b, int64_t dim) const {
    return has_branches() ? torch::cat({y_f, y_b}, dim) : y_f + y_b;
  }
  // y (..., branches H, P) + diagonal * x for x (..., H, P).
  torch::Tensor with_diagonal(const torch::Tensor& y, const torch::Tensor& x,
                              const torch::Tensor& params, const Rows& rows) const;

  Joining joining_;
  std::shared_ptr<Mixer> forward_, backward_;  // the same module unless own_weights
  torch::Tensor D;                             // (H), for quasi and add with a skip
  Projection fc_D{nullptr};                    // (d_inner -> H), no bias, for quasi
};

MixerInfo BidirectionalCore::info_with(const MixerInfo& registered, const MixerOptions& options) {
  const auto core = mixer_info(options.core, options);
  const bool quasi = options.combine == "quasi", two = joining_of(options) > Joining::kAdd;
  MixerInfo info = registered;
  info.matrix_class = two     ? core.matrix_class + ", two"
                      : quasi ? core.matrix_class + " off a free diagonal"
                              : core.matrix_class + ", both triangles";
  info.cost = core.cost;
  // The backward matrix is aligned if the trailing blocks of the core's are.
  info.sequence_aligned = core.sequence_aligned && core.trailing_aligned;
  info.extendable = core.extendable;
  info.dropout = core.dropout;
  info.packed = core.packed;
  info.capturable = core.capturable;
  return info;
}

// The convolved columns of both directions, then the others: for `semiseparable` the order of
// Hydra.
std::vector<Columns> BidirectionalCore::projection() const {
  std::vector<Columns> all;
  for (const bool conv : {true, false})
    for (const char* direction : {"_f", "_b"})
      for (const auto& columns : forward_->projection())
        if (columns.conv == conv)
          all.push_back({columns.name + direction, columns.width, conv, columns.silu});
  return all;
}

torch::Tensor BidirectionalCore::derive(const torch::Tensor& projected,
                                        const torch::Tensor& x) const {
  int64_t convolved = 0;
  for (const auto& columns : forward_->projection())
    if (columns.conv) convolved += columns.width;
  const int64_t plain = forward_->projection_width() - convolved;
  const auto p = projected.split_with_sizes({convolved, convolved, plain, plain}, 2);
  std::vector<torch::Tensor> params{forward_->derive(torch::cat({p[0], p[2]}, 2), x),
                                    backward_->derive(torch::cat({p[1], p[3]}, 2), x)};
  if (joining_ == Joining::kQuasi) {
    const Rows rows = arithmetic_of(x);
    const auto constant = D.defined() ? weight(D, rows) : torch::zeros({heads_.H}, rows.options);
    const auto delta =
        narrow_linear(x.flatten(2).flatten(0, 1), weight(fc_D->weight, rows), constant);
    params.push_back(delta.view({x.size(0), x.size(1), heads_.H}).to(projected.scalar_type()));
  }
  return torch::cat(params, 2);
}

torch::Tensor BidirectionalCore::combine(const torch::Tensor& y) const {
  if (!has_branches()) return forward_->combine(y);
  const auto halves = y.chunk(2, 2);
  const auto y_f = forward_->combine(halves[0]), y_b = backward_->combine(halves[1]);
  return joining_ == Joining::kMult ? y_f * y_b : torch::cat({y_f, y_b}, 2);
}

torch::Tensor BidirectionalCore::diagonal(const torch::Tensor& params, const Rows& rows) const {
  if (joining_ == Joining::kQuasi)
    return params.narrow(-1, 2 * forward_->params_width(), heads_.H)
        .to(rows.options.dtype().toScalarType());
  return D.defined() ? weight(D, rows) : torch::Tensor();
}

torch::Tensor BidirectionalCore::with_diagonal(const torch::Tensor& y, const torch::Tensor& x,
                                               const torch::Tensor& params,
                                               const Rows& rows) const {
  const auto d = diagonal(params, rows);
  if (!d.defined()) return y;
  const auto on_it = d.unsqueeze(-1) * x;
  const std::vector<torch::Tensor> of_branches(static_cast<std::size_t>(branches()), on_it);
  return y + torch::cat(of_branches, -2);
}

torch::Tensor BidirectionalCore::matrix(const torch::Tensor& params, const Rows& rows) const {
  auto M_f = matrix_of(*forward_, forward_params(params), rows);
  auto M_b = matrix_of(*backward_, flip_rows(backward_params(params), rows.valid), rows);
  if (joining_ == Joining::kQuasi) {
    M_f = shift(M_f, 2);
    M_b = shift(M_b, 2);
  }
  // A core without columns has one matrix for all sequences, but they end at different positions.
  if (rows.valid.defined()) {
    M_f = M_f.expand({rows.S, -1, -1, -1});
    M_b = M_b.expand({rows.S, -1, -1, -1});
  }
  // The reversed sequence's matrix, with rows and columns back in order.
  M_b = flip_rows(M_b.transpose(1, 2), rows.valid).transpose(1, 2);
  M_b = flip_rows(M_b.transpose(1, 3), rows.valid).transpose(1, 3);
  auto M = joined(M_f, M_b, 1);
  const auto d = diagonal(params, rows);
  if (!d.defined()) return M;
  return M + diagonal_matrix(d, rows).repeat({1, branches(), 1, 1});
}

torch::Tensor BidirectionalCore::product(const torch::Tensor& x, const torch::Tensor& params,
                                         const Rows& rows) const {
  const bool quasi = joining_ == Joining::kQuasi;
  // Layers are numbered from 0, so that the backward direction drops other entries than any layer
  // does forward.
  Rows reversed = rows;
  reversed.dropout.layer = -1 - rows.dropout.layer;
  const auto y_f = product_of(*forward_, x, forward_params(params), rows);
  const auto y_b = product_of(*backward_, flip_rows(x, rows.valid),
                              flip_rows(backward_params(params), rows.valid), reversed);
  const auto y = joined(quasi ? shift(y_f) : y_f, flip_rows(quasi ? shift(y_b) : y_b, rows.valid),
                        /*dim=*/2);
  return with_diagonal(y, x, params, rows);
}

torch::Tensor BidirectionalCore::packed_product(const torch::Tensor& x, const torch::Tensor& params,
                                                const Sequences& sequences) const {
  const bool quasi = joining_ == Joining::kQuasi;
  const Rows rows = arithmetic_of(x.unsqueeze(0));
  // On a CPU a core would round its bfloat16 output before the sum.
  const auto type = kernel_input_type(info().name, "x", x);
  const auto v = x.to(type), p = params.to(type);
  const auto y_f = packed_product_of(*forward_, v, forward_params(p), sequences);
  const auto y_b = packed_product_of(*backward_, flip_tokens(v, sequences),
                                     flip_tokens(backward_params(p), sequences), sequences);
  const auto y = joined(quasi ? shift_tokens(y_f, sequences) : y_f,
                        flip_tokens(quasi ? shift_tokens(y_b, sequences) : y_b, sequences),
                        /*dim=*/1);
  return with_diagonal(y, v, p, rows).to(x.scalar_type());
}

torch::Tensor BidirectionalCore::response(const torch::Tensor& params, const Rows& rows) const {
  const bool quasi = joining_ == Joining::kQuasi;
  const auto r_f = response_of(*forward_, forward_params(params), rows);
  const auto r_b = response_of(*backward_, flip_rows(backward_params(params), rows.valid), rows);
  if (!r_f.defined()) return {};
  return joined(quasi ? shift(r_f) : r_f, flip_rows(quasi ? shift(r_b) : r_b, rows.valid),
                /*dim=*/2);
}

// The flags are those of the default core; info_with() has those of the others.
HYDRAMIX_REGISTER_MIXER("bidirectional", BidirectionalCore,
                        .matrix_class = "Semiseparable off a free diagonal",
                        .formula = "the core's matrix both ways: quasi, add, mult or concat",
                        .cost = "O(L)", .source = "Hydra, Hwang et al. 2024, section 3.3",
                        .sequence_aligned = true, .packed = true,
                        .choose =
                            "To put Hydra's construction, or Add, Mult or Concat, around any "
                            "causal mixer: name it as core.",
                        .note =
                            "Its flags are those of the core, but over h3 and attention_causal it "
                            "is not sequence aligned.");

}  // namespace
}  // namespace hydramix
