// SPDX-License-Identifier: Apache-2.0
// The mixer of Mamba-2: a causal scan, so a lower triangular semiseparable matrix, plus the skip D
// (none with skip: false).
//
//   M_ij = c_i . b_j exp(A sum_{t=j+1}^{i} dt_t) dt_j  (i >= j)  + D [i = j]
//
// Paper: section 3.1, equation 1. Cost O(L). Without the skip, every block on or below the diagonal
// has rank <= N.
#include "hydramix/registry.h"
#include "mixers/state_space.h"

namespace hydramix {
namespace {

class Semiseparable : public StateSpaceMixer {
 public:
  Semiseparable(Heads heads, const MixerOptions& options)
      : StateSpaceMixer(heads, options, options.skip) {
    check_groups(heads, options);
  }

  std::vector<Columns> projection() const override {
    const int64_t GN = options_.groups * options_.d_state;
    return {{"B", GN, true, true}, {"C", GN, true, true}, {"dt", heads_.H, false, false}};
  }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto M = semiseparable_matrix(scan(params, rows));
    return D.defined() ? M + diagonal_matrix(weight(D, rows), rows) : M;
  }

  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                               const Sequences& sequences) const override {
    const int64_t GN = options_.groups * options_.d_state;
    const auto p = pieces(params, {GN, GN, heads_.H});
    return scan_packed(x, direction(p[2], p[0], p[1], options_.groups, x), {}, {}, sequences,
                       /*shift=*/0);
  }

 private:
  ScanParams scan(const torch::Tensor& params, const Rows& rows) const {
    return scan_params(params, 0, 2 * options_.groups * options_.d_state, rows);
  }
};

HYDRAMIX_REGISTER_MIXER(
    "semiseparable", Semiseparable, .matrix_class = "Semiseparable",
    .formula = "c_i A_{i:j} b_j for i >= j", .cost = "O(L)",
    .source = "Mamba-2 (SSD), Dao & Gu 2024", .sequence_aligned = true, .causal = true,
    .packed = true, .paper_aligned = true,
    .choose = "For causal models: the mixer of Mamba-2, at linear cost.",
    .published = "style=mamba expand=2 headdim=64 d_conv=4 mixer_options.d_state=128");

}  // namespace
}  // namespace hydramix
