// SPDX-License-Identifier: Apache-2.0
#include "train/sentence_classification.h"

#include <algorithm>
#include <cmath>

#include "data/shuffle.h"
#include "glue/metrics.h"
#include "hydramix/error.h"
#include "models/packed_ids.h"

namespace hydramix {
struct SentenceClassification::Batch : PackedBatch {
  torch::Tensor labels;  // (S) float64
};

std::vector<EncodedSentence> encode_sentences(const SentenceTask& task,
                                              const std::vector<Sentence>& rows,
                                              const Tokenizer& tokenizer, int64_t max_length) {
  std::vector<EncodedSentence> encoded;
  encoded.reserve(rows.size());
  for (const auto& row : rows) {
    auto one = task.pairs ? tokenizer.encode_pair(row.first, row.second, max_length)
                          : tokenizer.encode(row.first, max_length);
    encoded.push_back({std::move(one.ids), std::move(one.type_ids), row.label, row.line});
  }
  return encoded;
}

SentenceClassification::SentenceClassification(SequenceClassifier model, const SentenceTask& task,
                                               std::vector<EncodedSentence> training,
                                               std::vector<SentencePart> parts,
                                               const SentenceSettings& settings)
    : model_(std::move(model)),
      task_(task),
      training_(std::move(training)),
      parts_(std::move(parts)),
      settings_(settings) {
  for (const auto& item : model_->named_parameters())
    if (item.value().dim() == 2 && item.key().find("encoder") != std::string::npos)
      flops_per_token_ += 6.0 * static_cast<double>(item.value().numel());
}

int64_t SentenceClassification::steps(int64_t batch) const {
  const int64_t examples = std::ssize(training_) * settings_.epochs;
  return (examples + batch - 1) / batch;
}

std::vector<const EncodedSentence*> SentenceClassification::examples_of(Slice slice) const {
  const int64_t n = std::ssize(training_), end = n * settings_.epochs;
  std::vector<const EncodedSentence*> examples;
  for (int64_t number = slice.first; number < std::min(end, slice.first + slice.count); ++number) {
    const Shuffle order(n, static_cast<uint64_t>(settings_.seed),
                        static_cast<uint64_t>(number / n));
    examples.push_back(&training_[static_cast<std::size_t>(order(number % n))]);
  }
  return examples;
}

SentenceClassification::Batch SentenceClassification::upload(
    const std::vector<const EncodedSentence*>& examples) const {
  PackedIds packed;
  std::vector<double> labels;
  for (const auto* example : examples) {
    packed.add(example->ids, example->type_ids);
    labels.push_back(example->label);
  }
  return {packed.batch(*model_, settings_.device),
          torch::tensor(labels, torch::kFloat64).to(settings_.device)};
}

torch::Tensor SentenceClassification::logits(const Batch& batch, const DropoutKey& dropout) const {
  return model_->forward(batch.ids, batch.type_ids, batch.layout, dropout).to(torch::kFloat64);
}

torch::Tensor SentenceClassification::loss(const torch::Tensor& logits,
                                           const torch::Tensor& labels) const {
  if (task_.is_regression()) return (logits.squeeze(1) - labels).square().sum();
  const auto classes = labels.to(torch::kInt64).unsqueeze(1);
  return -logits.log_softmax(1).gather(1, classes).sum();
}

torch::Tensor SentenceClassification::predictions(const torch::Tensor& logits) const {
  return task_.is_regression() ? logits.squeeze(1) : logits.argmax(1).to(torch::kFloat64);
}

DropoutKey SentenceClassification::dropout_key(Slice slice, std::size_t examples) const {
  const auto count = static_cast<int64_t>(examples);
  return {settings_.seed,
          torch::arange(slice.first, slice.first + count, torch::kInt64).to(settings_.device)};
}

Totals SentenceClassification::accumulate(Slice slice, std::optional<Slice>) {
  const auto examples = examples_of(slice);
  Totals totals;
  if (examples.empty()) return totals;
  const auto batch = upload(examples);
  model_->train();
  const auto z = logits(batch, dropout_key(slice, examples.size()));
  const auto sum = loss(z, batch.labels);
  sum.backward();
  totals.tokens = static_cast<double>(batch.tokens);
  totals.terms = static_cast<double>(examples.size());
  totals.flops = totals.tokens * flops_per_token_;
  totals.loss = sum.item<double>();
  if (!task_.is_regression())
    totals.correct = (predictions(z.detach()) == batch.labels).sum().item<double>();
  return totals;
}

// Ranks share out batches, not examples, so that a batch is the same on any number of ranks.
void SentenceClassification::each_batch(
    const std::vector<const EncodedSentence*>& examples, int64_t rank, int64_t ranks,
    const std::function<void(int64_t first, const Batch&, const torch::Tensor&)>& f) {
  torch::NoGradGuard no_grad;
  model_->eval();
  const int64_t count = std::ssize(examples), size = settings_.micro_batch;
  for (int64_t first = rank * size; first < count; first += ranks * size) {
    const auto begin = examples.begin() + first;
    const auto batch = upload({begin, begin + std::min(size, count - first)});
    f(first, batch, logits(batch, {}));
  }
}

std::vector<double> SentenceClassification::evaluate(int64_t rank, int64_t ranks) {
  std::vector<const EncodedSentence*> examples;
  for (const auto& part : parts_)
    for (const auto& example : part.examples) examples.push_back(&example);
  std::vector<double> sums(2 + examples.size());
  each_batch(examples, rank, ranks, [&](int64_t first, const Batch& batch, const torch::Tensor& z) {
    sums[0] += loss(z, batch.labels).item<double>();
    const auto values = predictions(z).cpu().contiguous();
    std::copy_n(values.data_ptr<double>(), values.numel(), sums.begin() + 2 + first);
    sums[1] += static_cast<double>(values.numel());
  });
  return sums;
}

std::vector<double> SentenceClassification::predict(const std::vector<EncodedSentence>& examples,
                                                    int64_t rank, int64_t ranks) {
  std::vector<const EncodedSentence*> all;
  for (const auto& example : examples) all.push_back(&example);
  std::vector<double> predicted(examples.size());
  each_batch(all, rank, ranks, [&](int64_t first, const Batch&, const torch::Tensor& z) {
    const auto values = predictions(z).cpu().contiguous();
    std::copy_n(values.data_ptr<double>(), values.numel(), predicted.begin() + first);
  });
  return predicted;
}

nlohmann::ordered_json SentenceClassification::summary(const std::vector<double>& sums) const {
  nlohmann::ordered_json result{{"loss", sums.at(0) / std::max(sums.at(1), 1.0)}}, each;
  std::size_t first = 2;
  for (const auto& part : parts_) {
    std::vector<double> actual;
    for (const auto& example : part.examples) actual.push_back(example.label);
    each[part.name] = scores(task_, std::span(sums).subspan(first, actual.size()), actual);
    first += actual.size();
  }
  for (const auto& [name, metrics] : each.items())
    for (const auto& [metric, value] : metrics.items())
      result[metric] = (result.contains(metric) ? result[metric].get<double>() : 0.0) +
                       value.get<double>() / static_cast<double>(parts_.size());
  if (parts_.size() > 1) result["parts"] = each;
  return result;
}

std::string SentenceClassification::find_fault(Slice slice) {
  torch::NoGradGuard no_grad;
  model_->train();
  const auto examples = examples_of(slice);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Slice one{slice.first + static_cast<int64_t>(i), 1};
    const auto batch = upload({examples[i]});
    if (!std::isfinite(loss(logits(batch, dropout_key(one, 1)), batch.labels).item<double>()))
      return concat("the loss of line ", examples[i]->line, " of train.tsv is not finite.");
  }
  return "the loss of each example is finite, the gradient is not.";
}

}  // namespace hydramix
