// SPDX-License-Identifier: Apache-2.0
#include "train/example_training.h"

#include <algorithm>
#include <cmath>

#include "data/shuffle.h"
#include "hydramix/error.h"
#include "ops/host_copy.h"
#include "train/profile.h"

namespace hydramix {

ExampleTraining::ExampleTraining(SequenceClassifier model, const TextTask& task,
                                 std::vector<EncodedExample> training,
                                 std::vector<ExamplePart> parts, const ExampleSettings& settings)
    : model_(std::move(model)),
      task_(task),
      training_(std::move(training)),
      parts_(std::move(parts)),
      settings_(settings),
      objective_(make_objective(
          task_, {settings.temperature, model_->encoder_options().block.d_model}, training_)) {
  for (const auto& item : model_->named_parameters())
    if (item.value().dim() == 2 && item.key().find("encoder") != std::string::npos)
      flops_per_token_ += 6.0 * static_cast<double>(item.value().numel());
}

int64_t ExampleTraining::steps(int64_t batch) const {
  const int64_t examples = std::ssize(training_) * settings_.epochs;
  return (examples + batch - 1) / batch;
}

std::vector<const EncodedExample*> ExampleTraining::examples_of(Slice slice) const {
  const int64_t n = std::ssize(training_), end = n * settings_.epochs;
  std::vector<const EncodedExample*> examples;
  for (int64_t number = slice.first; number < std::min(end, slice.first + slice.count); ++number) {
    const Shuffle order(n, static_cast<uint64_t>(settings_.seed),
                        static_cast<uint64_t>(number / n));
    examples.push_back(&training_[static_cast<std::size_t>(order(number % n))]);
  }
  return examples;
}

ExampleBatch ExampleTraining::upload(const std::vector<const EncodedExample*>& examples) const {
  PackedIds packed;
  std::vector<double> targets;
  for (const auto* example : examples) {
    packed.add(example->ids, example->type_ids);
    if (objective_->sequences() == 2)
      packed.add(example->partner_ids, std::vector<int32_t>(example->partner_ids.size()));
    targets.insert(targets.end(), example->targets.begin(), example->targets.end());
  }
  return {packed.batch(*model_, settings_.device), examples,
          hydramix::upload(targets, settings_.device)};
}

torch::Tensor ExampleTraining::output(const ExampleBatch& batch, const DropoutKey& dropout) const {
  return model_->forward(batch.ids, batch.type_ids, batch.layout, dropout).to(torch::kFloat64);
}

DropoutKey ExampleTraining::dropout_key(Slice slice, std::size_t examples) const {
  const int64_t each = objective_->sequences(), first = slice.first * each;
  const auto count = static_cast<int64_t>(examples) * each;
  return {settings_.seed,
          torch::arange(first, first + count,
                        torch::TensorOptions(torch::kInt64).device(settings_.device))};
}

Totals ExampleTraining::accumulate(Slice slice, std::optional<Slice>) {
  const auto examples = examples_of(slice);
  Totals totals;
  if (examples.empty()) return totals;
  const auto batch = [&] {
    const Profile::Span span(profile, "upload");
    return upload(examples);
  }();
  model_->train();
  const Profile::Span span(profile, "forward, backward");
  const auto z = output(batch, dropout_key(slice, examples.size()));
  const auto sum = objective_->loss(z, batch);
  sum.backward();
  totals.tokens = static_cast<double>(batch.tokens);
  totals.terms = objective_->terms(batch);
  totals.flops = totals.tokens * flops_per_token_;
  totals.set_sums(sum, objective_->correct(z.detach(), batch));
  return totals;
}

// Ranks share out batches, not examples, so that a batch is the same on any number of ranks.
void ExampleTraining::each_batch(
    const std::vector<const EncodedExample*>& examples, int64_t rank, int64_t ranks,
    const std::function<void(int64_t first, const ExampleBatch&, const torch::Tensor&)>& f) {
  torch::NoGradGuard no_grad;
  model_->eval();
  const int64_t count = std::ssize(examples), size = settings_.micro_batch;
  for (int64_t first = rank * size; first < count; first += ranks * size) {
    const auto begin = examples.begin() + first;
    const auto batch = upload({begin, begin + std::min(size, count - first)});
    f(first, batch, output(batch, {}));
  }
}

// Where the values of each example begin, and their number.
std::vector<int64_t> ExampleTraining::value_offsets(
    const std::vector<const EncodedExample*>& examples) const {
  std::vector<int64_t> offsets{0};
  for (const auto* example : examples)
    offsets.push_back(offsets.back() + objective_->width(*example));
  return offsets;
}

std::vector<double> ExampleTraining::evaluate(int64_t rank, int64_t ranks) {
  std::vector<const EncodedExample*> examples;
  for (const auto& part : parts_)
    for (const auto& example : part.examples) examples.push_back(&example);
  const auto offsets = value_offsets(examples);
  std::vector<double> sums(2 + static_cast<std::size_t>(offsets.back()));
  each_batch(examples, rank, ranks,
             [&](int64_t first, const ExampleBatch& batch, const torch::Tensor& z) {
               sums[0] += objective_->loss(z, batch).item<double>();
               sums[1] += objective_->terms(batch);
               const auto values = objective_->values(z, batch).cpu().contiguous();
               std::copy_n(values.data_ptr<double>(), values.numel(),
                           sums.begin() + 2 + offsets[static_cast<std::size_t>(first)]);
             });
  return sums;
}

std::vector<double> ExampleTraining::predict(const std::vector<EncodedExample>& examples,
                                             int64_t rank, int64_t ranks) {
  std::vector<const EncodedExample*> all;
  for (const auto& example : examples) all.push_back(&example);
  const auto offsets = value_offsets(all);
  std::vector<double> predicted(static_cast<std::size_t>(offsets.back()));
  each_batch(all, rank, ranks,
             [&](int64_t first, const ExampleBatch& batch, const torch::Tensor& z) {
               const auto values = objective_->values(z, batch).cpu().contiguous();
               std::copy_n(values.data_ptr<double>(), values.numel(),
                           predicted.begin() + offsets[static_cast<std::size_t>(first)]);
             });
  return predicted;
}

nlohmann::ordered_json ExampleTraining::summary(const std::vector<double>& sums) const {
  nlohmann::ordered_json result{{"loss", sums.at(0) / std::max(sums.at(1), 1.0)}}, each;
  std::size_t first = 2;
  for (const auto& part : parts_) {
    std::size_t width = 0;
    for (const auto& example : part.examples)
      width += static_cast<std::size_t>(objective_->width(example));
    each[part.name] = objective_->metrics(part.examples, std::span(sums).subspan(first, width));
    first += width;
  }
  if (parts_.size() == 1) {
    result.update(each.front());
    return result;
  }
  for (const auto& [name, metrics] : each.items())
    for (const auto& [metric, value] : metrics.items())
      result[metric] = (result.contains(metric) ? result[metric].get<double>() : 0.0) +
                       value.get<double>() / static_cast<double>(parts_.size());
  result["parts"] = each;
  return result;
}

double ExampleTraining::criterion(const nlohmann::ordered_json& summary) const {
  const double loss = Task::criterion(summary);
  if (!settings_.best_by_score) return loss;
  // Scores are often equal in small sets; then the lower loss wins. Its weight is below any
  // difference in score.
  return 1e-9 * loss / (1 + std::abs(loss)) - summary.at("score").get<double>();
}

std::string ExampleTraining::find_fault(Slice slice) {
  torch::NoGradGuard no_grad;
  model_->train();
  const auto examples = examples_of(slice);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Slice one{slice.first + static_cast<int64_t>(i), 1};
    const auto batch = upload({examples[i]});
    const auto loss = objective_->loss(output(batch, dropout_key(one, 1)), batch);
    if (!std::isfinite(loss.item<double>()))
      return concat("the loss of line ", examples[i]->line, " of ", settings_.file,
                    " is not finite.");
  }
  return "the loss of each example is finite, the gradient is not.";
}

}  // namespace hydramix
