// SPDX-License-Identifier: Apache-2.0
// The ranks of a matrix's blocks off the diagonal, which define semiseparable and quasiseparable
// matrices (figure 2 of the paper, definitions 3.1 and 3.2).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Entry i - 1 belongs to the cut before place i, for i = 1 .. L - 1.
struct BlockRanks {
  std::vector<int64_t> below, above;            // of M[i:, :i] and M[:i, i:]
  std::vector<int64_t> below_on_diagonal = {};  // of M[i:, :i+1]
  std::vector<int64_t> above_on_diagonal = {};  // of M[:i+1, i:]
};

// M (L, L) float64, L >= 2. The rank counts the singular values above 1e-10 of the block's largest.
BlockRanks block_ranks(const torch::Tensor& M);

using RanksByTitle = std::map<std::string, BlockRanks>;

// A table with both blocks of each matrix at some cuts, and their largest ranks.
std::string ranks_table(const RanksByTitle& matrices);

// Ranks over the cut. Of one matrix: both blocks. Of many: a panel for each block; a few well-known
// mixers in colour, the others grey.
void write_ranks_chart(const std::string& path, const RanksByTitle& matrices);

}  // namespace hydramix
