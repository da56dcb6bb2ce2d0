// SPDX-License-Identifier: Apache-2.0
// The ranks of a matrix's blocks off the diagonal, which define semiseparable and quasiseparable
// matrices (figure 2 of the paper, definitions 3.1 and 3.2).
#pragma once

#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Entry i - 1 belongs to the cut before position i, for i = 1 .. L - 1.
struct BlockRanks {
  std::vector<int64_t> below, above;            // of M[i:, :i] and M[:i, i:]
  std::vector<int64_t> below_on_diagonal = {};  // of M[i:, :i+1]
  std::vector<int64_t> above_on_diagonal = {};  // of M[:i+1, i:]
};

// For matrices computed in float64, and for those that a model has computed in float32.
inline constexpr double kRankTolerance = 1e-10, kFloat32RankTolerance = 1e-6;

// M (L, L) float64, L >= 2. The rank counts the singular values above `tolerance` times the block's
// largest. Those with the diagonal cost as much again.
BlockRanks block_ranks(const torch::Tensor& M, bool with_diagonal = true,
                       double tolerance = kRankTolerance);

}  // namespace hydramix
