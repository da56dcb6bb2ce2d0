// SPDX-License-Identifier: Apache-2.0
// What every scan of this project learns per head: the decay A = -exp(A_log), the bias of the step
// dt = softplus(raw + dt_bias), and the skip D. The two directions of a mixer share them.
#pragma once

#include "hydramix/mixer.h"
#include "ops/semiseparable.h"

namespace hydramix {

// The two scans of a bidirectional mixer.
struct Directions {
  ScanParams forward;
  ScanParams backward;  // over the reversed sequence
};

class StateSpaceMixer : public Mixer {
 public:
  StateSpaceMixer(Heads heads, const MixerOptions& options);

 protected:
  // raw (S, L, H) -> dt (S, L, H): softplus, limits, and zero at padding, where a state must rest.
  torch::Tensor step(const torch::Tensor& raw, const Rows& rows) const;
  torch::Tensor decay_rate(const Rows& rows) const;  // A (H)
  // The scan whose b and c are the 2 G N columns of params from `begin`, and dt the H from `dt`.
  ScanParams scan_params(const torch::Tensor& params, int64_t begin, int64_t dt,
                         const Rows& rows) const;

  // Columns of own b, c (in groups) and dt for either direction, and the scans made of them.
  std::vector<Columns> columns_of_directions() const;
  Directions directions_of_columns(const torch::Tensor& params, const Rows& rows) const;

  torch::Tensor A_log, dt_bias, D;  // (H) each
};

// Throws UsageError unless groups divides the heads; for mixers whose b and c come in groups.
void check_groups(Heads heads, const MixerOptions& options);

// A diagonal (S, L, H) or (H) as a matrix (S or 1, H, L, L).
torch::Tensor diagonal_matrix(const torch::Tensor& diagonal, const Rows& rows);

}  // namespace hydramix
