// SPDX-License-Identifier: Apache-2.0
// Monarch matrices: two block-diagonal factors and the transposition of an a x b grid of positions
// between them, i = i_1 b + i_2.
//
//   M = P^T L P R        M_ij = L[i_2][i_1, j_1] R[j_1][i_2, j_2]
//
// R mixes within each of the a runs of b neighbours; L mixes across runs, among positions with the
// same i_2. b is sqrt(max_length) rounded up, and a is the smallest with a b >= max_length; a = b
// if max_length is a square.
//
// Paper: table 1. Cost O(L^1.5): two batched GEMMs. The leading block of M depends only on the
// leading blocks of the factors, so a sequence of L positions costs at most L b.
//
// Each block starts as (I + G / 2) / sqrt(1.25), where the rows of G have energy one. M then
// preserves the energy of its input, keeps most of it in place, and is far from singular, so the
// mixer needs no residual and no scale.
#include <algorithm>
#include <cmath>

#include "hydramix/registry.h"
#include "ops/product.h"

namespace hydramix {
namespace {

torch::Tensor near_identity(int64_t H, int64_t blocks, int64_t size) {
  const auto G = torch::randn({H, blocks, size, size}) / std::sqrt(static_cast<double>(size));
  return (torch::eye(size) + 0.5 * G) / std::sqrt(1.25);
}

class Monarch : public Mixer {
 public:
  Monarch(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    int64_t b = 1;
    while (b * b < options.max_length) ++b;
    const int64_t a = (options.max_length + b - 1) / b;
    left = register_parameter("left", near_identity(heads.H, b, a));
    right = register_parameter("right", near_identity(heads.H, a, b));
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto position = torch::arange(rows.L, rows.options.dtype(torch::kInt64));
    const int64_t b = right.size(2);
    const auto run = position.div(b, "floor"), within = position.remainder(b);
    const auto i_1 = run.unsqueeze(1), i_2 = within.unsqueeze(1);
    const auto &j_1 = run, &j_2 = within;
    const torch::indexing::Slice every_head;
    return (weight(left, rows).index({every_head, i_2, i_1, j_1}) *
            weight(right, rows).index({every_head, j_1, i_2, j_2}))
        .unsqueeze(0);
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    const int64_t S = rows.S, L = rows.L, H = heads_.H, P = heads_.P;
    const int64_t b = std::min(right.size(2), L), a = (L + b - 1) / b;  // used part of the grid
    const auto along = weight(right, rows).narrow(1, 0, a).narrow(2, 0, b).narrow(3, 0, b);
    const auto over = weight(left, rows).narrow(1, 0, b).narrow(2, 0, a).narrow(3, 0, a);
    const auto v = torch::constant_pad_nd(x.permute({2, 1, 0, 3}).flatten(2), {0, 0, 0, a * b - L})
                       .reshape({H, a, b, S * P});
    const auto within = matrix_product(along, v).transpose(1, 2);  // (H, b, a, S P)
    const auto across = matrix_product(over, within).transpose(1, 2);
    return across.reshape({H, a * b, S, P}).narrow(1, 0, L).permute({2, 1, 0, 3});
  }

 private:
  torch::Tensor left;   // (H, b, a, a): L, b blocks
  torch::Tensor right;  // (H, a, b, b): R, a blocks
};

HYDRAMIX_REGISTER_MIXER(
    "monarch", Monarch, .matrix_class = "Monarch",
    .formula = "L[i_2][i_1, j_1] R[j_1][i_2, j_2], i = i_1 b + i_2", .cost = "O(L^1.5)",
    .source = "Monarch, Dao et al. 2022", .extendable = false, .paper_aligned = false,
    .choose = "For a structured matrix of one fixed length as two batched dense products.");

}  // namespace
}  // namespace hydramix
