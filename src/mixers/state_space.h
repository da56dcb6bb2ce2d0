// SPDX-License-Identifier: Apache-2.0
// What every scan of this project learns per head: the decay A = -exp(A_log), the bias of the step
// dt = softplus(raw + dt_bias), and the skip D. The two directions of a mixer share them.
#pragma once

#include "hydramix/mixer.h"
#include "ops/scan.h"
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

  // Scans run on sequences end to end:
  // params (n, W) cut into pieces of these widths, in one step whose gradient is one copy.
  static std::vector<torch::Tensor> pieces(const torch::Tensor& params,
                                           const std::vector<int64_t>& widths);
  // b and c (n, G N) and raw dt (n, H) as a direction of the scan of x.
  ScanDirection direction(const torch::Tensor& dt, const torch::Tensor& b, const torch::Tensor& c,
                          int64_t groups, const torch::Tensor& x) const;
  // The two directions of columns_of_directions(), and the columns after them.
  struct PackedDirections {
    ScanDirection forward, backward;
    torch::Tensor rest;
  };
  PackedDirections packed_directions(const torch::Tensor& params, const torch::Tensor& x) const;
  // delta undefined: the skip D.
  torch::Tensor scan_packed(const torch::Tensor& x, const ScanDirection& forward,
                            const ScanDirection& backward, const torch::Tensor& delta,
                            const Sequences& sequences, int64_t shift) const;

  torch::Tensor A_log, dt_bias, D;  // (H) each
};

// Throws UsageError unless groups divides the heads; for mixers whose b and c come in groups.
void check_groups(Heads heads, const MixerOptions& options);

// A diagonal (S, L, H) or (H) as a matrix (S or 1, H, L, L).
torch::Tensor diagonal_matrix(const torch::Tensor& diagonal, const Rows& rows);

}  // namespace hydramix
