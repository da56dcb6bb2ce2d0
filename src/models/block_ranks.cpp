// SPDX-License-Identifier: Apache-2.0
#include "models/block_ranks.h"

namespace hydramix {
namespace {

int64_t numerical_rank(const torch::Tensor& block, double tolerance) {
  const auto s = torch::linalg_svdvals(block);
  return (s > tolerance * s.max()).sum().item<int64_t>();
}

}  // namespace

BlockRanks block_ranks(const torch::Tensor& M, bool with_diagonal, double tolerance) {
  const int64_t L = M.size(0);
  BlockRanks ranks;
  for (int64_t i = 1; i < L; ++i) {
    const auto below = M.narrow(0, i, L - i), above = M.narrow(1, i, L - i);
    ranks.below.push_back(numerical_rank(below.narrow(1, 0, i), tolerance));
    ranks.above.push_back(numerical_rank(above.narrow(0, 0, i), tolerance));
    if (!with_diagonal) continue;
    ranks.below_on_diagonal.push_back(numerical_rank(below.narrow(1, 0, i + 1), tolerance));
    ranks.above_on_diagonal.push_back(numerical_rank(above.narrow(0, 0, i + 1), tolerance));
  }
  return ranks;
}

}  // namespace hydramix
