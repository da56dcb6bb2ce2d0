// SPDX-License-Identifier: Apache-2.0
// The learned scalars per head that all scan mixers have: the decay A = -exp(A_log), the bias of
// the step dt = softplus(raw + dt_bias), and the skip D. The two directions of a mixer share them.
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
  StateSpaceMixer(Heads heads, const MixerOptions& options, bool skip = true);

 protected:
  // raw (S, L, H) -> dt (S, L, H): softplus, limits, and zero at padding, so that the state does
  // not change there.
  torch::Tensor step(const torch::Tensor& raw, const Rows& rows) const;
  torch::Tensor decay_rate(const Rows& rows) const;  // A (H)
  // The scan with b and c in the 2 G N columns of params from `begin`, and dt in the H columns from
  // `dt`.
  ScanParams scan_params(const torch::Tensor& params, int64_t begin, int64_t dt,
                         const Rows& rows) const;

  // Columns of separate b, c (in groups) and dt for each direction, and the scans made of them.
  std::vector<Columns> columns_of_directions() const;
  Directions directions_of_columns(const torch::Tensor& params, const Rows& rows) const;

  // For packed sequences: params (n, W) split into pieces of these widths, in one
  // operation, so that its gradient is one copy.
  static std::vector<torch::Tensor> pieces(const torch::Tensor& params,
                                           const std::vector<int64_t>& widths);
  // A direction of the scan of x, from b and c (n, G N) and raw dt (n, H).
  ScanDirection direction(const torch::Tensor& dt, const torch::Tensor& b, const torch::Tensor& c,
                          int64_t groups, const torch::Tensor& x) const;
  // The two directions of columns_of_directions(), and the columns after them.
  struct PackedDirections {
    ScanDirection forward, backward;
    torch::Tensor rest;
  };
  PackedDirections packed_directions(const torch::Tensor& params, const torch::Tensor& x) const;
  // An undefined delta means the skip D, or zero without one.
  torch::Tensor scan_packed(const torch::Tensor& x, const ScanDirection& forward,
                            const ScanDirection& backward, const torch::Tensor& delta,
                            const Sequences& sequences, int64_t shift) const;

  torch::Tensor A_log, dt_bias, D;  // (H) each; D is undefined without a skip
};

// (H): the inverse softplus of steps that are log-uniform in [dt_min, dt_max] and at least
// dt_init_floor.
torch::Tensor initial_dt_bias(int64_t H, const MixerOptions& options);

// For mixers with groups of b and c: throws UsageError unless the number of groups divides the
// number of heads.
void check_groups(Heads heads, const MixerOptions& options);

// A diagonal (S, L, H) or (H) as a matrix (S or 1, H, L, L).
torch::Tensor diagonal_matrix(const torch::Tensor& diagonal, const Rows& rows);

}  // namespace hydramix
