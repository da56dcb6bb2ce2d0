// SPDX-License-Identifier: Apache-2.0
// The heuristic bidirectional state-space models of the paper's table 3: a forward and a backward
// semiseparable matrix (with Hydra's columns: own b, c and dt per direction, shared A, dt_bias, D),
//
//   add     M = SS_f + SS_b + D                 one matrix; its diagonal depends on b and c
//   mult    y = (SS_f + D) x  *  (SS_b + D) x   elementwise: two matrices, combined by a product
//   concat  y = [(SS_f + D) x, (SS_b + D) x]    two matrices, side by side
//
// Cost O(L). Concat doubles the input of out_proj; with expand 1.5 instead of 2 its model has about
// as many parameters as the others (69 M and 70 M, as in the table).
#include "hydramix/registry.h"
#include "mixers/state_space.h"

namespace hydramix {
namespace {

class Bidirectional : public StateSpaceMixer {
 public:
  Bidirectional(Heads heads, const MixerOptions& options) : StateSpaceMixer(heads, options) {
    check_groups(heads, options);
  }

  std::vector<Columns> projection() const override { return columns_of_directions(); }

 protected:
  struct Pair {
    torch::Tensor forward, backward;
  };

  // (S, H, L, L) each.
  Pair matrices(const torch::Tensor& params, const Rows& rows) const {
    const auto both = directions_of_columns(params, rows);
    return {semiseparable_matrix(both.forward), semiseparable_matrix(both.backward).flip({2, 3})};
  }
  torch::Tensor skip_matrix(const Rows& rows) const {
    return diagonal_matrix(weight(D, rows), rows);
  }
};

class Add : public Bidirectional {
 public:
  using Bidirectional::Bidirectional;

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto [forward, backward] = matrices(params, rows);
    return forward + backward + skip_matrix(rows);
  }
  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override {
    const auto both = packed_directions(params, x);
    return scan_packed(x, both.forward, both.backward, {}, sequences, /*shift=*/0);
  }
};

class Concat : public Bidirectional {
 public:
  using Bidirectional::Bidirectional;

  int64_t branches() const override { return 2; }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto [forward, backward] = matrices(params, rows);
    return torch::cat({forward + skip_matrix(rows), backward + skip_matrix(rows)}, 1);
  }
  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override {
    const auto both = packed_directions(params, x);
    return torch::cat({scan_packed(x, both.forward, {}, {}, sequences, /*shift=*/0),
                       scan_packed(x, {}, both.backward, {}, sequences, /*shift=*/0)},
                      1);
  }
};

class Mult : public Concat {
 public:
  using Concat::Concat;

  int64_t combined_heads() const override { return heads_.H; }
  torch::Tensor combine(const torch::Tensor& y) const override {
    return y.narrow(2, 0, heads_.H) * y.narrow(2, heads_.H, heads_.H);
  }
};

HYDRAMIX_REGISTER_MIXER(
    "add", Add, .matrix_class = "Quasiseparable, bound diagonal",
    .formula = "SS_f + SS_b + D: diagonal c_i b_i of both directions", .cost = "O(L)",
    .source = "Goel et al. 2022 (SaShiMi)", .sequence_aligned = true, .packed = true,
    .choose = "To compare with the sum of two scans; hydra holds each of its matrices.");

HYDRAMIX_REGISTER_MIXER("mult", Mult, .matrix_class = "Semiseparable, two",
                        .formula = "(SS_f + D) x times (SS_b + D) x, entry by entry",
                        .cost = "O(L)", .source = "Wang et al. 2022 (BiGS)",
                        .sequence_aligned = true, .packed = true,
                        .choose = "To compare with the product of two scans (BiGS).");

HYDRAMIX_REGISTER_MIXER("concat", Concat, .matrix_class = "Semiseparable, two",
                        .formula = "[(SS_f + D) x, (SS_b + D) x]", .cost = "O(L)",
                        .source = "Wang et al. 2022 (BiGS)", .sequence_aligned = true,
                        .packed = true, .choose = "To compare with two scans side by side (BiGS).");

}  // namespace
}  // namespace hydramix
