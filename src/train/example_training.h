// SPDX-License-Identifier: Apache-2.0
// Fine-tuning on labelled text as a Task. Packed batches go through the model; the objective has
// the loss and the metrics. An evaluation holds a few numbers for every example, because most
// metrics are not sums.
#pragma once

#include <functional>
#include <memory>

#include "hydramix/sequence_classifier.h"
#include "train/encoded_example.h"
#include "train/objective.h"
#include "train/task.h"

namespace hydramix {

// Examples that are evaluated together: a dev file.
struct ExamplePart {
  std::string name;  // "dev_matched"
  std::vector<EncodedExample> examples;
};

struct ExampleSettings {
  int64_t epochs = 3;
  int64_t micro_batch = 32;  // examples at once in evaluation
  int64_t seed = 0;          // of order and dropout
  torch::Device device = torch::kCPU;
  double temperature = 0.05;       // of kPairs
  bool best_by_score = false;      // else by loss
  std::string file = "train.tsv";  // of the training examples, for messages
};

class ExampleTraining : public Task {
 public:
  ExampleTraining(SequenceClassifier model, const TextTask& task,
                  std::vector<EncodedExample> training, std::vector<ExamplePart> parts,
                  const ExampleSettings& settings);

  // The number of steps of `batch` examples in `epochs` epochs.
  int64_t steps(int64_t batch) const;

  torch::nn::Module& model() override { return *model_; }
  // Sequence numbers count through all epochs; those after the last epoch are ignored.
  Totals accumulate(Slice slice, std::optional<Slice> next) override;
  // [loss, terms], then the objective's values of each example of all parts.
  std::vector<double> evaluate(int64_t rank, int64_t ranks) override;
  // {"loss", the task's metrics, "score"}: of the one part, or the means over parts and then
  // {"parts": {name: {...}}}.
  nlohmann::ordered_json summary(const std::vector<double>& sums) const override;
  double criterion(const nlohmann::ordered_json& summary) const override;
  std::string find_fault(Slice slice) override;

  std::string advice() const override { return "Lower --rate, or look at these lines."; }

  // This rank's share of the values for examples, which need no labels; zero for examples of other
  // ranks.
  std::vector<double> predict(const std::vector<EncodedExample>& examples, int64_t rank,
                              int64_t ranks);

  const Objective& objective() const { return *objective_; }

 private:
  std::vector<const EncodedExample*> examples_of(Slice slice) const;
  ExampleBatch upload(const std::vector<const EncodedExample*>& examples) const;
  // The model's output for this rank's batches, each with the number of its first example.
  void each_batch(
      const std::vector<const EncodedExample*>& examples, int64_t rank, int64_t ranks,
      const std::function<void(int64_t first, const ExampleBatch&, const torch::Tensor&)>& f);
  std::vector<int64_t> value_offsets(const std::vector<const EncodedExample*>& examples) const;
  torch::Tensor output(const ExampleBatch& batch, const DropoutKey& dropout) const;  // float64
  DropoutKey dropout_key(Slice slice, std::size_t examples) const;

  SequenceClassifier model_;
  const TextTask& task_;
  std::vector<EncodedExample> training_;
  std::vector<ExamplePart> parts_;
  ExampleSettings settings_;
  std::unique_ptr<Objective> objective_;
  double flops_per_token_ = 0;
};

}  // namespace hydramix
