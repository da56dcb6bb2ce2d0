// SPDX-License-Identifier: Apache-2.0
#include "train/objective.h"

#include <cmath>

#include "hydramix/error.h"
#include "tasks/label_thresholds.h"
#include "tasks/metrics.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;
using Examples = std::vector<EncodedExample>;

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& classes) {
  return -logits.log_softmax(1).gather(1, classes.to(torch::kInt64).unsqueeze(1)).sum();
}

std::vector<double> single_targets(const Examples& examples) {
  std::vector<double> targets;
  for (const auto& example : examples) targets.push_back(example.targets.at(0));
  return targets;
}

// ---- one class of several ----

class ClassObjective : public Objective {
 public:
  explicit ClassObjective(const TextTask& task) : task_(task) {}
  torch::Tensor loss(const torch::Tensor& z, const ExampleBatch& batch) const override {
    return cross_entropy(z, batch.targets);
  }
  torch::Tensor correct(const torch::Tensor& z, const ExampleBatch& batch) const override {
    return (values(z, batch) == batch.targets).sum();
  }
  torch::Tensor values(const torch::Tensor& z, const ExampleBatch&) const override {
    return z.argmax(1).to(torch::kFloat64);
  }
  int64_t width(const EncodedExample&) const override { return 1; }
  Json metrics(const Examples& examples, std::span<const double> values) const override {
    return scores(task_, values, single_targets(examples));
  }

 private:
  const TextTask& task_;
};

// ---- a number ----

class ScoreObjective : public Objective {
 public:
  ScoreObjective(const TextTask& task, double scale, double shift)
      : task_(task), scale_(scale), shift_(shift) {}
  torch::Tensor loss(const torch::Tensor& z, const ExampleBatch& batch) const override {
    const auto targets =
        is_plain() ? batch.targets : (batch.targets - shift_) / scale_;  // the same bits for GLUE
    return (z.squeeze(1) - targets).square().sum();
  }
  torch::Tensor correct(const torch::Tensor& z, const ExampleBatch&) const override {
    return torch::zeros({}, z.options());
  }
  torch::Tensor values(const torch::Tensor& z, const ExampleBatch&) const override {
    return is_plain() ? z.squeeze(1) : z.squeeze(1) * scale_ + shift_;
  }
  int64_t width(const EncodedExample&) const override { return 1; }
  Json metrics(const Examples& examples, std::span<const double> values) const override {
    return scores(task_, values, single_targets(examples));
  }
  std::pair<double, double> scale_and_shift() const override { return {scale_, shift_}; }

 private:
  bool is_plain() const { return scale_ == 1 && shift_ == 0; }

  const TextTask& task_;
  double scale_, shift_;
};

std::unique_ptr<Objective> score_objective(const TextTask& task, const Examples& training) {
  if (task.name != kind_name(LabelKind::kScore))  // GLUE's scores are used as they are
    return std::make_unique<ScoreObjective>(task, 1, 0);
  const auto targets = single_targets(training);
  const auto n = static_cast<double>(targets.size());
  double mean = 0, squares = 0;
  for (const double target : targets) mean += target / n;
  for (const double target : targets) squares += (target - mean) * (target - mean) / n;
  return std::make_unique<ScoreObjective>(task, squares > 0 ? std::sqrt(squares) : 1, mean);
}

// ---- several labels ----

class LabelsObjective : public Objective {
 public:
  explicit LabelsObjective(const TextTask& task) : task_(task) {}
  torch::Tensor loss(const torch::Tensor& z, const ExampleBatch& batch) const override {
    // -log sigmoid of the logit for labels that apply, of its negative for the others.
    const auto signs = 1 - 2 * batch.targets.view_as(z);
    return torch::softplus(z * signs).sum();
  }
  // Decisions, not examples, so that the mean loss does not depend on the number of labels.
  double terms(const ExampleBatch& batch) const override {
    return static_cast<double>(batch.targets.numel());
  }
  torch::Tensor correct(const torch::Tensor& z, const ExampleBatch& batch) const override {
    return ((z > 0) == (batch.targets.view_as(z) > 0)).sum();
  }
  torch::Tensor values(const torch::Tensor& z, const ExampleBatch&) const override {
    return z.sigmoid().flatten();
  }
  int64_t width(const EncodedExample&) const override { return task_.outputs(); }
  Json metrics(const Examples& examples, std::span<const double> values) const override {
    std::vector<double> actual;
    for (const auto& example : examples)
      actual.insert(actual.end(), example.targets.begin(), example.targets.end());
    const LabelTable said{values, task_.labels.size()}, is{actual, task_.labels.size()};
    const auto thresholds = best_thresholds(said, is);
    const auto found = label_scores(said, is, thresholds);
    auto json = with_score(
        task_,
        {{"micro_f1", found.micro_f1}, {"macro_f1", found.macro_f1}, {"exact", found.exact}});
    json["thresholds"] = thresholds;
    return json;
  }

 private:
  const TextTask& task_;
};

// ---- a tag for each word ----

class TokensObjective : public Objective {
 public:
  explicit TokensObjective(const TextTask& task) : task_(task) {}
  torch::Tensor loss(const torch::Tensor& z, const ExampleBatch& batch) const override {
    const auto [rows, words] = labelled(batch);
    if (rows.numel() == 0) return z.sum() * 0;
    return cross_entropy(z.index_select(0, rows), batch.targets.index_select(0, words));
  }
  double terms(const ExampleBatch& batch) const override {
    return static_cast<double>(labelled(batch).first.numel());
  }
  torch::Tensor correct(const torch::Tensor& z, const ExampleBatch& batch) const override {
    const auto [rows, words] = labelled(batch);
    return (z.index_select(0, rows).argmax(1) == batch.targets.index_select(0, words)).sum();
  }
  // The tag of every word; -1 for a word without a token.
  torch::Tensor values(const torch::Tensor& z, const ExampleBatch& batch) const override {
    const auto [rows, words] = labelled(batch);
    int64_t count = 0;
    for (const auto* example : batch.examples) count += std::ssize(example->places);
    auto tags = torch::full({count}, -1.0, z.options());
    return tags.index_copy_(0, words, z.index_select(0, rows).argmax(1).to(torch::kFloat64));
  }
  int64_t width(const EncodedExample& example) const override { return std::ssize(example.places); }
  Json metrics(const Examples& examples, std::span<const double> values) const override {
    TagScores scores;
    std::size_t value = 0;
    for (const auto& example : examples) {
      std::vector<std::string> said, is;
      for (const double target : example.targets) {
        const double tag = values[value++];
        said.push_back(tag < 0 ? "O" : task_.labels[static_cast<std::size_t>(tag)]);
        is.push_back(task_.labels[static_cast<std::size_t>(target)]);
      }
      scores.add(said, is);
    }
    return scores.summary(task_);
  }

 private:
  // Rows of z, and numbers of words in the batch, for all words with a token.
  static std::pair<torch::Tensor, torch::Tensor> labelled(const ExampleBatch& batch) {
    std::vector<int64_t> rows, words;
    int64_t row = 0, word = 0;
    for (const auto* example : batch.examples) {
      for (const int64_t place : example->places) {
        if (place >= 0) rows.push_back(row + place), words.push_back(word);
        ++word;
      }
      row += std::ssize(example->ids);
    }
    const auto on_device = [&](const std::vector<int64_t>& numbers) {
      return torch::tensor(numbers, torch::kInt64).to(batch.targets.device());
    };
    return {on_device(rows), on_device(words)};
  }

  const TextTask& task_;
};

}  // namespace

std::unique_ptr<Objective> make_objective(const TextTask& task, const ObjectiveSettings& settings,
                                          const Examples& training) {
  switch (task.kind) {
    case LabelKind::kClasses:
      return std::make_unique<ClassObjective>(task);
    case LabelKind::kScore:
      return score_objective(task, training);
    case LabelKind::kLabels:
      return std::make_unique<LabelsObjective>(task);
    case LabelKind::kTokens:
      return std::make_unique<TokensObjective>(task);
    case LabelKind::kPairs:
      break;
  }
  return make_pair_objective(task, settings);
}

}  // namespace hydramix
