// SPDX-License-Identifier: Apache-2.0
// The heuristic bidirectional state-space models of the paper's table 3: a forward and a backward
// semiseparable matrix (with Hydra's columns: own b, c and dt per direction, shared A, dt_bias, D),
//
//   add     M = SS_f + SS_b + D                 one matrix; its diagonal is bound to b and c
//   mult    y = (SS_f + D) x  *  (SS_b + D) x   entry by entry: two matrices, combined by a product
//   concat  y = [(SS_f + D) x, (SS_b + D) x]    two matrices, side by side
//
// Cost O(L). Concat doubles the input of out_proj; with expand 1.5 in place of 2 its model has the
// parameters of the others (69 M against 70 M, as in the table).
#include "hydramix/registry.h"
#include "mixers/state_space.h"

namespace hydramix {
namespace {

class Bidirectional : public StateSpaceMixer {
 public:
  Bidirectional(Heads heads, const MixerOptions& options) : StateSpaceMixer(heads, options) {
    check_groups(heads, options);
  }

  std::vector<Columns> projection() const override {
    const int64_t GN = options_.groups * options_.d_state;
    return {{"B_f", GN, true, true},          {"C_f", GN, true, true},
            {"B_b", GN, true, true},          {"C_b", GN, true, true},
            {"dt_f", heads_.H, false, false}, {"dt_b", heads_.H, false, false}};
  }

 protected:
  ScanParams forward(const torch::Tensor& params, const Rows& rows) const {
    return scan_params(params, 0, 4 * options_.groups * options_.d_state, rows);
  }
  // Over the reversed sequence.
  ScanParams backward(const torch::Tensor& params, const Rows& rows) const {
    const int64_t GN = options_.groups * options_.d_state;
    return scan_params(params, 2 * GN, 4 * GN + heads_.H, rows).flipped();
  }
  torch::Tensor forward_matrix(const torch::Tensor& params, const Rows& rows) const {
    return semiseparable_matrix(forward(params, rows));
  }
  torch::Tensor backward_matrix(const torch::Tensor& params, const Rows& rows) const {
    return semiseparable_matrix(backward(params, rows)).flip({2, 3});
  }
  torch::Tensor forward_scan(const torch::Tensor& x, const torch::Tensor& params,
                             const Rows& rows) const {
    return semiseparable_scan(x, forward(params, rows), options_.tile);
  }
  torch::Tensor backward_scan(const torch::Tensor& x, const torch::Tensor& params,
                              const Rows& rows) const {
    return flip(semiseparable_scan(flip(x), backward(params, rows), options_.tile));
  }
};

class Add : public Bidirectional {
 public:
  using Bidirectional::Bidirectional;

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return forward_matrix(params, rows) + backward_matrix(params, rows) +
           diagonal_matrix(weight(D, rows), rows);
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    return forward_scan(x, params, rows) + backward_scan(x, params, rows) +
           x * weight(D, rows).unsqueeze(-1);
  }
};

class Concat : public Bidirectional {
 public:
  using Bidirectional::Bidirectional;

  int64_t branches() const override { return 2; }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto skip = diagonal_matrix(weight(D, rows), rows);
    return torch::cat({forward_matrix(params, rows) + skip, backward_matrix(params, rows) + skip},
                      1);
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    const auto skip = x * weight(D, rows).unsqueeze(-1);
    return torch::cat({forward_scan(x, params, rows) + skip, backward_scan(x, params, rows) + skip},
                      2);
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

HYDRAMIX_REGISTER_MIXER("add", Add, .matrix_class = "Quasiseparable, bound diagonal",
                        .formula = "SS_f + SS_b + D: diagonal c_i b_i of both directions",
                        .cost = "O(L)", .source = "Goel et al. 2022 (SaShiMi)",
                        .sequence_aligned = true);

HYDRAMIX_REGISTER_MIXER("mult", Mult, .matrix_class = "Semiseparable, two",
                        .formula = "(SS_f + D) x times (SS_b + D) x, entry by entry",
                        .cost = "O(L)", .source = "Wang et al. 2022 (BiGS)",
                        .sequence_aligned = true);

HYDRAMIX_REGISTER_MIXER("concat", Concat, .matrix_class = "Semiseparable, two",
                        .formula = "[(SS_f + D) x, (SS_b + D) x]", .cost = "O(L)",
                        .source = "Wang et al. 2022 (BiGS)", .sequence_aligned = true);

}  // namespace
}  // namespace hydramix
