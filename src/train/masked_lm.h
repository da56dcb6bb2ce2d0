// SPDX-License-Identifier: Apache-2.0
// Masked-language modelling as a task. Packed batches go through the encoder; the head runs on
// masked positions only, and the loss is summed over them.
#pragma once

#include <future>

#include "data/masked_batch.h"
#include "hydramix/bert.h"
#include "train/captured_steps.h"
#include "train/task.h"

namespace hydramix {

struct MaskedLmSettings {
  int64_t micro_batch = 32;          // sequences per evaluation batch
  int64_t evaluation_documents = 0;  // at most; 0: all
  int64_t seed = 0;                  // of dropout
  torch::Device device = torch::kCPU;
  bool graphs = false;  // with bfloat16 on a GPU: capture steps with recurring lengths
  std::function<void(const std::string&)> message = {};  // called if a capture fails
};

class MaskedLm : public Task {
 public:
  // `validation` may be the same object as `training`; it usually has other documents.
  MaskedLm(BertForMaskedLM model, const MaskedBatches& training, const Documents& validation,
           const MaskedBatches& validation_batches, const MaskedLmSettings& settings);

  torch::nn::Module& model() override { return *model_; }
  Totals accumulate(Slice slice, std::optional<Slice> next) override;
  // [loss, positions, correct], then for every kind of dependency [positions, correct, achievable].
  std::vector<double> evaluate(int64_t rank, int64_t ranks) override;
  nlohmann::ordered_json summary(const std::vector<double>& sums) const override;
  std::string find_fault(Slice slice) override;

 private:
  struct Tensors;
  MaskedLoss gradients(const Tensors& t);
  // The same, by a captured step where there is one.
  MaskedLoss captured_gradients(const Tensors& t);
  // `rounded_up` pads the masked positions with ignored ones, so that their number has few
  // different values.
  Tensors upload(const MaskedBatch& batch, bool rounded_up = false) const;
  MaskedBatch batch(Slice slice);
  void evaluate(const MaskedBatch& batch, std::vector<double>& sums);

  BertForMaskedLM model_;
  const MaskedBatches& training_;
  const Documents& validation_;
  const MaskedBatches& validation_batches_;
  const MaskedLmSettings settings_;
  const bool packed_;  // the mixer has kernels for packed sequences
  double flops_per_token_ = 0, flops_per_place_ = 0;
  CapturedSteps captured_;
  Slice coming_;
  std::future<MaskedBatch> coming_batch_;
};

// How well masked words are predicted, from the sums above: {"loss", "perplexity", "accuracy",
// "kinds": {name: {"places", "accuracy", "achievable"}}}.
nlohmann::ordered_json masked_lm_summary(const std::vector<double>& sums,
                                         const std::vector<std::string>& kinds);

}  // namespace hydramix
