// SPDX-License-Identifier: Apache-2.0
// The objective for one kind of label: the loss of a batch, the values that an evaluation keeps of
// it, and the metrics computed from these.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "models/packed_ids.h"
#include "train/encoded_example.h"

namespace hydramix {

struct ExampleBatch : PackedBatch {
  std::vector<const EncodedExample*> examples;
  torch::Tensor targets;  // those of all examples, one after another: float64
};

struct ObjectiveSettings {
  // kPairs: similarities are divided by the temperature; vectors have d_model numbers.
  double temperature = 0.05;
  int64_t d_model = 0;
};

class Objective {
 public:
  virtual ~Objective() = default;

  // Sequences that an example puts into the batch.
  virtual int64_t sequences() const { return 1; }
  // z: the model's output, float64. () float64, summed over the terms.
  virtual torch::Tensor loss(const torch::Tensor& z, const ExampleBatch& batch) const = 0;
  // The number of terms of the loss; by default one per example.
  virtual double terms(const ExampleBatch& batch) const {
    return static_cast<double>(batch.examples.size());
  }
  // The number of terms that were predicted correctly, (); 0 where that has no meaning.
  virtual torch::Tensor correct(const torch::Tensor& z, const ExampleBatch& batch) const = 0;
  // The input of metrics(): width() numbers per example, one after another, float64.
  virtual torch::Tensor values(const torch::Tensor& z, const ExampleBatch& batch) const = 0;
  virtual int64_t width(const EncodedExample& example) const = 0;
  // The task's metrics and "score" from the values of these examples.
  virtual nlohmann::ordered_json metrics(const std::vector<EncodedExample>& examples,
                                         std::span<const double> values) const = 0;
  // The model's output z means z * scale + shift.
  virtual std::pair<double, double> scale_and_shift() const { return {1, 0}; }
};

// The task must outlive it. Scores of a user's own files are standardized by the training examples,
// since their unit is arbitrary.
std::unique_ptr<Objective> make_objective(const TextTask& task, const ObjectiveSettings& settings,
                                          const std::vector<EncodedExample>& training);
// For vectors (train/pair_objective.cpp).
std::unique_ptr<Objective> make_pair_objective(const TextTask& task,
                                               const ObjectiveSettings& settings);

}  // namespace hydramix
