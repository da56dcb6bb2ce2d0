// SPDX-License-Identifier: Apache-2.0
// How well vectors find the partner of a text among all partners.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hydramix {

struct RetrievalScores {
  double recall_at_1 = 0, recall_at_10 = 0;  // share of queries with a rank of at most 1, 10
  double mrr = 0;                            // mean of 1 / rank
};

// `ranks`: the rank of the right partner of each query, from 1. All scores are 0 without queries.
RetrievalScores retrieval_scores(std::span<const int64_t> ranks);

// The rank of candidate `right` by similarity. Candidates that are `equal` to it (the same text) do
// not count; a tie counts against it, so that a model whose vectors are all equal ranks last.
int64_t rank_of(std::span<const double> similarities, std::size_t right,
                const std::vector<char>& equal);

}  // namespace hydramix
