// SPDX-License-Identifier: Apache-2.0
// Masked-language modelling as a task: packed batches through the encoder, the head on masked
// places only, the loss summed over them.
#pragma once

#include <future>

#include "data/masked_batch.h"
#include "hydramix/bert.h"
#include "train/task.h"

namespace hydramix {

struct MaskedLmSettings {
  int64_t micro_batch = 32;          // sequences at once in evaluation
  int64_t evaluation_documents = 0;  // at most; 0: all
  int64_t seed = 0;                  // of dropout
  torch::Device device = torch::kCPU;
  bool graphs = false;  // on a GPU, in bfloat16: steps whose lengths come again are captured
  std::function<void(const std::string&)> message = {};  // told when they cannot be
};

class MaskedLm : public Task {
 public:
  // `validation` may be the same object as `training`, with other documents as a rule.
  MaskedLm(BertForMaskedLM model, const MaskedBatches& training, const Documents& validation,
           const MaskedBatches& validation_batches, const MaskedLmSettings& settings);

  torch::nn::Module& model() override { return *model_; }
  Totals accumulate(Slice slice, std::optional<Slice> next) override;
  // [loss, places, right], then for every kind of dependency [places, right, achievable].
  std::vector<double> evaluate(int64_t rank, int64_t ranks) override;
  nlohmann::ordered_json summary(const std::vector<double>& sums) const override;
  std::string find_fault(Slice slice) override;

 private:
  struct Tensors;
  struct CapturedStep;
  MaskedLoss gradients(const Tensors& t);
  MaskedLoss captured_gradients(const Tensors& t);
  // `rounded_up`: with places that do not count, so that there are only few numbers of them.
  Tensors upload(const MaskedBatch& batch, bool rounded_up = false) const;
  MaskedBatch batch(Slice slice);
  void evaluate(const MaskedBatch& batch, std::vector<double>& sums);

  BertForMaskedLM model_;
  const MaskedBatches& training_;
  const Documents& validation_;
  const MaskedBatches& validation_batches_;
  const MaskedLmSettings settings_;
  bool captures_;  // settings_.graphs, as long as there is memory for it
  double flops_per_token_ = 0, flops_per_place_ = 0;
  std::vector<std::shared_ptr<CapturedStep>> captured_steps_;  // the one last used last
  std::vector<int64_t> seen_offsets_;                          // of the step before
  Slice coming_;
  std::future<MaskedBatch> coming_batch_;
};

// How well masked words are predicted, from the sums above: {"loss", "perplexity", "accuracy",
// "kinds": {name: {"places", "accuracy", "achievable"}}}.
nlohmann::ordered_json masked_lm_summary(const std::vector<double>& sums,
                                         const std::vector<std::string>& kinds);

}  // namespace hydramix
