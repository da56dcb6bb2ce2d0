// SPDX-License-Identifier: Apache-2.0
#include "train/recall_training.h"

#include <algorithm>
#include <numeric>

#include "hydramix/error.h"
#include "models/encoder_parts.h"
#include "ops/host_copy.h"

namespace hydramix {
namespace {

constexpr uint64_t kTestSeed = 0;
constexpr std::size_t kMaxCapturedSteps = 1;

}  // namespace

struct RecallTraining::Batch {
  torch::Tensor ids;                 // (B, L)
  torch::Tensor positions, targets;  // (B pairs); positions index B L
  DropoutKey dropout;
};

RecallTraining::RecallTraining(BertForMaskedLM model, const RecallData& data,
                               const RecallSettings& settings)
    : model_(std::move(model)),
      data_(data),
      settings_(settings),
      captured_(settings.graphs, kMaxCapturedSteps, settings.message) {
  // Two operations per weight and token forward, four backward. The head runs on the queries.
  for (const auto& item : model_->named_parameters())
    if (item.value().dim() == 2 && item.key().find("encoder") != std::string::npos)
      flops_per_token_ += 6.0 * static_cast<double>(item.value().numel());
  const auto d_model = static_cast<double>(model_->options().block.d_model);
  flops_per_query_ = 6 * d_model * (d_model + static_cast<double>(model_->options().vocab));
}

RecallTraining::Batch RecallTraining::upload(uint64_t seed, RecallSplit split, Slice slice) const {
  const int64_t length = data_.options().length;
  std::vector<int64_t> ids, positions, targets, numbers(static_cast<std::size_t>(slice.count));
  ids.reserve(static_cast<std::size_t>(slice.count * length));
  std::iota(numbers.begin(), numbers.end(), slice.first);
  for (int64_t i = 0; i < slice.count; ++i) {
    const auto example = data_.example(seed, split, slice.first + i);
    ids.insert(ids.end(), example.tokens.begin(), example.tokens.end());
    targets.insert(targets.end(), example.answers.begin(), example.answers.end());
    for (const int64_t position : example.positions) positions.push_back(i * length + position);
  }
  const auto& device = settings_.device;
  return {hydramix::upload(ids, device).view({slice.count, length}),
          hydramix::upload(positions, device),
          hydramix::upload(targets, device),
          {settings_.seed, hydramix::upload(numbers, device)}};
}

std::vector<torch::Tensor> RecallTraining::gradients(const Batch& batch) {
  const auto hidden = model_->encode(batch.ids, {}, {}, batch.dropout);
  const auto loss = model_->masked_loss(hidden, batch.positions, batch.targets);
  loss.sum.backward();
  return {loss.sum.detach(), loss.correct};
}

Totals RecallTraining::accumulate(Slice slice, std::optional<Slice>) {
  const auto batch = upload(static_cast<uint64_t>(settings_.seed), RecallSplit::kTrain, slice);
  model_->train();
  CapturedSteps::Step step;
  step.shape = {slice.count, batch.positions.numel()};
  step.inputs = {batch.ids, batch.positions, batch.targets, batch.dropout.sequences};
  step.run = [this](const std::vector<torch::Tensor>& inputs) {
    return gradients({inputs[0], inputs[1], inputs[2], {settings_.seed, inputs[3]}});
  };
  const auto results = captured_.run(step);
  Totals totals;
  totals.tokens = static_cast<double>(batch.ids.numel());
  totals.terms = static_cast<double>(batch.targets.numel());
  totals.flops = totals.tokens * flops_per_token_ + totals.terms * flops_per_query_;
  totals.set_sums(results[0], results[1]);
  return totals;
}

std::vector<double> RecallTraining::evaluate(int64_t rank, int64_t ranks) {
  torch::NoGradGuard no_grad;
  model_->eval();
  std::vector<double> sums(3);
  const int64_t all = data_.options().evaluated, micro_batch = settings_.micro_batch;
  // Ranks share out batches, so that a batch is the same on any number of ranks.
  for (int64_t i = rank; i * micro_batch < all; i += ranks) {
    const int64_t first = i * micro_batch;
    const auto batch =
        upload(kTestSeed, RecallSplit::kTest, {first, std::min(micro_batch, all - first)});
    const auto loss =
        model_->masked_loss(model_->encode(batch.ids, {}), batch.positions, batch.targets);
    sums[0] += loss.sum.item<double>();
    sums[1] += static_cast<double>(batch.targets.numel());
    sums[2] += loss.correct.item<double>();
  }
  return sums;
}

nlohmann::ordered_json RecallTraining::summary(const std::vector<double>& sums) const {
  return {{"loss", sums.at(0) / sums.at(1)},
          {"accuracy", sums.at(2) / sums.at(1)},
          {"queries", sums.at(1)}};
}

std::string RecallTraining::find_fault(Slice slice) {
  torch::NoGradGuard no_grad;
  const auto batch = upload(static_cast<uint64_t>(settings_.seed), RecallSplit::kTrain, slice);
  model_->train();
  std::string where = "every layer's output is finite, the gradient is not";
  int64_t layer = 0;
  const auto note = [&](const torch::Tensor& x) {
    if (layer < 0) return;
    if (torch::isfinite(x).all().item<bool>()) {
      ++layer;
      return;
    }
    where = layer == 0 ? std::string("the embedding's output is not finite")
                       : concat("the output of layer ", layer - 1, " is the first not finite");
    layer = -1;  // report only the first
  };
  model_->encode(batch.ids, {}, {}, batch.dropout, note);
  return concat(where, ", for sequences ", slice.first, " to ", slice.first + slice.count - 1, ".");
}

}  // namespace hydramix
