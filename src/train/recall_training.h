// SPDX-License-Identifier: Apache-2.0
// Associative recall as a Task (data/recall.h). The loss is the cross-entropy over the vocabulary
// at the queries alone, and the accuracy the share of queries whose value has the largest logit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/recall.h"
#include "hydramix/bert.h"
#include "train/captured_steps.h"
#include "train/task.h"

namespace hydramix {

struct RecallSettings {
  int64_t micro_batch = 32;  // sequences at once in evaluation
  int64_t seed = 0;          // of the training sequences and of dropout
  torch::Device device = torch::kCPU;
  // Captures training steps into CUDA graphs. The model's memory and this task must have been made
  // in one OwnStream.
  bool graphs = false;
  std::function<void(const std::string&)> message = {};  // called if a step cannot be captured
};

// Sequence i of training is example i of the seed; none is seen twice. The sequences of an
// evaluation are the same for every seed.
class RecallTraining : public Task {
 public:
  RecallTraining(BertForMaskedLM model, const RecallData& data, const RecallSettings& settings);

  torch::nn::Module& model() override { return *model_; }
  // There is nothing to prefetch: on a GPU the host makes sequences while the device computes.
  Totals accumulate(Slice slice, std::optional<Slice> next) override;
  // [loss, queries, correct]
  std::vector<double> evaluate(int64_t rank, int64_t ranks) override;
  nlohmann::ordered_json summary(const std::vector<double>& sums) const override;
  std::string find_fault(Slice slice) override;
  std::string advice() const override { return "Lower train.optimizer.rate."; }

 private:
  struct Batch;
  Batch upload(uint64_t seed, RecallSplit split, Slice slice) const;
  // [loss, correct]
  std::vector<torch::Tensor> gradients(const Batch& batch);

  BertForMaskedLM model_;
  const RecallData& data_;
  const RecallSettings settings_;
  double flops_per_token_ = 0, flops_per_query_ = 0;
  CapturedSteps captured_;
};

}  // namespace hydramix
