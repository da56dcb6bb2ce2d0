// SPDX-License-Identifier: Apache-2.0
// Tables and charts of the ranks of blocks off the diagonal.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/block_ranks.h"

namespace hydramix {

using RanksByTitle = std::map<std::string, BlockRanks>;

// A table with both blocks of each matrix at some cuts, and their largest ranks.
std::string ranks_table(const RanksByTitle& matrices);

// Ranks over the cut. Of one matrix: both blocks. Of many: a panel for each block; a few well-known
// mixers in colour, the others grey.
void write_ranks_chart(const std::string& path, const RanksByTitle& matrices);

}  // namespace hydramix
