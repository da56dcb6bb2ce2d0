// SPDX-License-Identifier: Apache-2.0
// Vectors of texts that belong together become similar. With c(i, j) the cosine of first text i
// and second text j of a batch, and T the temperature:
//
//   without scores  -log softmax_j( c(i, j) / T ) at j = i, and the same over i: each text must
//                   find its partner among those of the batch (InfoNCE, in both directions)
//   with scores     log( 1 + sum over s_i > s_j of exp( (c(j, j) - c(i, i)) / T ) ): a pair with a
//                   higher score must be more similar (CoSENT)
#include <algorithm>
#include <cmath>
#include <limits>

#include "tasks/metrics.h"
#include "tasks/retrieval.h"
#include "train/objective.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;
using Examples = std::vector<EncodedExample>;

// Retrieval compares every text with every other, so it takes at most this many pairs.
constexpr std::size_t kMostRetrieved = 4096;
// Scored pairs count as partners if they have at least this share of the highest score.
constexpr double kPartnerShare = 0.8;

torch::Tensor normalized(const torch::Tensor& rows) {
  return rows / rows.square().sum(1, /*keepdim=*/true).sqrt().clamp_min(1e-12);
}

// z (2 S, d): first and second texts in turn.
struct Sides {
  torch::Tensor first, second;  // (S, d), of length 1
  explicit Sides(const torch::Tensor& z) {
    const auto both = normalized(z).view({-1, 2, z.size(1)});
    first = both.select(1, 0);
    second = both.select(1, 1);
  }
};

class PairObjective : public Objective {
 public:
  PairObjective(const TextTask& task, const ObjectiveSettings& settings)
      : task_(task), temperature_(settings.temperature), d_model_(settings.d_model) {}

  int64_t sequences() const override { return 2; }
  torch::Tensor loss(const torch::Tensor& z, const ExampleBatch& batch) const override {
    const Sides sides(z);
    return batch.targets.numel() > 0 ? ranking_loss(sides, batch.targets)
                                     : contrast_loss(sides, batch);
  }
  // Without scores: texts whose partner is the most similar one.
  torch::Tensor correct(const torch::Tensor& z, const ExampleBatch& batch) const override {
    if (batch.targets.numel() > 0) return torch::zeros({}, z.options());
    const Sides sides(z);
    const auto nearest = similarities(sides, batch).argmax(1);
    return (nearest == torch::arange(nearest.size(0), nearest.options())).sum();
  }
  torch::Tensor values(const torch::Tensor& z, const ExampleBatch&) const override {
    return normalized(z).flatten();
  }
  int64_t width(const EncodedExample&) const override { return 2 * d_model_; }
  Json metrics(const Examples& examples, std::span<const double> values) const override;

 private:
  torch::Tensor contrast_loss(const Sides& sides, const ExampleBatch& batch) const {
    const auto c = similarities(sides, batch);
    return -(c.log_softmax(1).diagonal().sum() + c.log_softmax(0).diagonal().sum()) / 2;
  }
  torch::Tensor ranking_loss(const Sides& sides, const torch::Tensor& scores) const {
    const auto c = (sides.first * sides.second).sum(1) / temperature_;  // (S)
    const auto margins = c.unsqueeze(0) - c.unsqueeze(1);               // [i][j] = c_j - c_i
    const auto counts = scores.unsqueeze(1) > scores.unsqueeze(0);      // s_i > s_j
    const auto terms = margins.masked_fill(~counts, -std::numeric_limits<double>::infinity());
    const auto zero = torch::zeros({1}, c.options());
    return torch::cat({terms.flatten(), zero}).logsumexp(0) * static_cast<double>(c.size(0));
  }
  // c / T (S, S). A text that equals the partner is no negative, nor is the partner of an equal
  // text.
  torch::Tensor similarities(const Sides& sides, const ExampleBatch& batch) const {
    const auto n = static_cast<int64_t>(batch.examples.size());
    auto equal = torch::zeros({n, n}, torch::kBool);
    auto cells = equal.accessor<bool, 2>();
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const auto &a = *batch.examples[static_cast<std::size_t>(i)],
                   &b = *batch.examples[static_cast<std::size_t>(j)];
        cells[i][j] = i != j && (a.partner_ids == b.partner_ids || a.ids == b.ids);
      }
    return (sides.first.matmul(sides.second.t()) / temperature_)
        .masked_fill(equal.to(sides.first.device()), -std::numeric_limits<double>::infinity());
  }

  const TextTask& task_;
  double temperature_;
  int64_t d_model_;
};

Json PairObjective::metrics(const Examples& examples, std::span<const double> values) const {
  const auto n = static_cast<int64_t>(examples.size());
  const auto vectors =
      torch::from_blob(const_cast<double*>(values.data()), {n, 2, d_model_}, torch::kFloat64);
  const auto first = vectors.select(1, 0), second = vectors.select(1, 1);
  Json found;
  std::vector<char> is_partner(examples.size(), 1);
  if (!examples.front().targets.empty()) {
    std::vector<double> actual;
    for (const auto& example : examples) actual.push_back(example.targets[0]);
    const auto cosines = (first * second).sum(1).contiguous();
    const std::span<const double> said(cosines.data_ptr<double>(), examples.size());
    found["pearson"] = pearson_correlation(said, actual);
    found["spearman"] = spearman_correlation(said, actual);
    const double highest = *std::max_element(actual.begin(), actual.end());
    for (std::size_t i = 0; i < actual.size(); ++i)
      is_partner[i] = actual[i] >= kPartnerShare * highest ? 1 : 0;
  }
  const auto most = std::min(examples.size(), kMostRetrieved);
  const auto candidates = second.narrow(0, 0, static_cast<int64_t>(most)).t().contiguous();
  std::vector<int64_t> ranks;
  for (std::size_t i = 0; i < most; ++i) {
    if (is_partner[i] == 0) continue;
    std::vector<char> equal(most);
    for (std::size_t j = 0; j < most; ++j)
      equal[j] = examples[j].partner_ids == examples[i].partner_ids ? 1 : 0;
    const auto row = first[static_cast<int64_t>(i)].unsqueeze(0).matmul(candidates).contiguous();
    ranks.push_back(rank_of({row.data_ptr<double>(), most}, i, equal));
  }
  const auto retrieval = retrieval_scores(ranks);
  found["recall@1"] = retrieval.recall_at_1;
  found["recall@10"] = retrieval.recall_at_10;
  found["mrr"] = retrieval.mrr;
  return with_score(task_, found);
}

}  // namespace

std::unique_ptr<Objective> make_pair_objective(const TextTask& task,
                                               const ObjectiveSettings& settings) {
  return std::make_unique<PairObjective>(task, settings);
}

}  // namespace hydramix
