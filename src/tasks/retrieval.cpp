// SPDX-License-Identifier: Apache-2.0
#include "tasks/retrieval.h"

namespace hydramix {

RetrievalScores retrieval_scores(std::span<const int64_t> ranks) {
  RetrievalScores scores;
  const auto share = 1 / static_cast<double>(ranks.size());
  for (const int64_t rank : ranks) {
    scores.recall_at_1 += rank <= 1 ? share : 0;
    scores.recall_at_10 += rank <= 10 ? share : 0;
    scores.mrr += share / static_cast<double>(rank);
  }
  return scores;
}

int64_t rank_of(std::span<const double> similarities, std::size_t right,
                const std::vector<char>& equal) {
  int64_t rank = 1;
  for (std::size_t j = 0; j < similarities.size(); ++j)
    if (j != right && equal[j] == 0 && !(similarities[j] < similarities[right])) ++rank;
  return rank;
}

}  // namespace hydramix
