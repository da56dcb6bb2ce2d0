// SPDX-License-Identifier: Apache-2.0
// Hydra section 3: the quasiseparable product, for any mixer made of two scans and a diagonal,
//
//   QS(x) = shift(SS_f(x)) + flip(shift(SS_b(flip(x)))) + delta x
//
// shift() moves both triangles off the diagonal, so that delta alone determines the diagonal. As a
// matrix:
//
//   i > j:  c_{i-1} . b_j exp(A sum_{t=j+1}^{i-1} dt_t) dt_j    with the forward  b, c, dt
//   i = j:  delta_i = D + fc_D x_i
//   i < j:  c_{i+1} . b_j exp(A sum_{t=i+1}^{j-1} dt_t) dt_j    with the backward b, c, dt
#pragma once

#include "hydramix/projection.h"
#include "mixers/state_space.h"
#include "ops/hydra_inner.h"

namespace hydramix {

class QuasiseparableMixer : public StateSpaceMixer {
 public:
  QuasiseparableMixer(Heads heads, const MixerOptions& options);

  // The projected columns, then delta (H).
  int64_t params_width() const override { return projection_width() + heads_.H; }
  torch::Tensor derive(const torch::Tensor& projected, const torch::Tensor& x) const override;

 protected:
  virtual Directions directions(const torch::Tensor& params, const Rows& rows) const = 0;

  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override;
  virtual PackedDirections packed_directions_of(const torch::Tensor& params, const torch::Tensor& x,
                                                const Sequences& sequences) const = 0;
  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override;
  torch::Tensor delta(const torch::Tensor& params) const;  // (S, L, H)

  Projection fc_D{nullptr};  // (d_inner -> H), no bias
};

// Separate b, c and dt for each direction, groups, and optionally a learned initial state for both
// scans.
class Hydra : public QuasiseparableMixer {
 public:
  Hydra(Heads heads, const MixerOptions& options);

  std::vector<Columns> projection() const override { return columns_of_directions(); }

  // Whether the block may fuse the mixer with the operations around it (ops/hydra_inner.h).
  bool is_fusable() const { return !init_states.defined(); }
  // The mixer's part of the fused operation's arguments.
  HydraShape inner_shape() const;
  HydraWeights inner_weights(const torch::Tensor& w) const;

 protected:
  Directions directions(const torch::Tensor& params, const Rows& rows) const override;
  PackedDirections packed_directions_of(const torch::Tensor& params, const torch::Tensor& x,
                                        const Sequences& sequences) const override;
  torch::Tensor response(const torch::Tensor& params, const Rows& rows) const override;

 private:
  torch::Tensor init_states;  // (H, P, N), for both directions
};

}  // namespace hydramix
