// SPDX-License-Identifier: Apache-2.0
// Classification or regression of sentences and pairs as a Task. Packed batches go through the
// encoder and the pooler; cross-entropy or squared error is summed over the examples. An evaluation
// holds every prediction, because most of GLUE's metrics are not sums.
#pragma once

#include <functional>

#include "glue/sentence_task.h"
#include "glue/sentences.h"
#include "hydramix/sequence_classifier.h"
#include "hydramix/tokenizer.h"
#include "train/task.h"

namespace hydramix {

// A tokenized example.
struct EncodedSentence {
  std::vector<int32_t> ids, type_ids;
  double label;  // class number or score; NaN if unknown
  int64_t line;  // of the file
};

// [CLS] first [SEP] or [CLS] first [SEP] second [SEP], cut to max_length tokens.
std::vector<EncodedSentence> encode_sentences(const SentenceTask& task,
                                              const std::vector<Sentence>& rows,
                                              const Tokenizer& tokenizer, int64_t max_length);

// Examples that are evaluated together: a dev file.
struct SentencePart {
  std::string name;  // "dev_matched"
  std::vector<EncodedSentence> examples;
};

struct SentenceSettings {
  int64_t epochs = 3;
  int64_t micro_batch = 32;  // examples at once in evaluation
  int64_t seed = 0;          // of order and dropout
  torch::Device device = torch::kCPU;
};

class SentenceClassification : public Task {
 public:
  SentenceClassification(SequenceClassifier model, const SentenceTask& task,
                         std::vector<EncodedSentence> training, std::vector<SentencePart> parts,
                         const SentenceSettings& settings);

  // The number of steps of `batch` examples in `epochs` epochs.
  int64_t steps(int64_t batch) const;

  torch::nn::Module& model() override { return *model_; }
  // Sequence numbers count through all epochs; those after the last epoch are ignored.
  Totals accumulate(Slice slice, std::optional<Slice> next) override;
  // [loss, examples], then the prediction of each example of all parts.
  std::vector<double> evaluate(int64_t rank, int64_t ranks) override;
  // {"loss", the task's metrics, "score"}: of the one part, or the means over parts and then
  // {"parts": {name: {...}}}.
  nlohmann::ordered_json summary(const std::vector<double>& sums) const override;
  std::string find_fault(Slice slice) override;

  std::string advice() const override { return "Lower --rate, or look at these lines."; }

  // This rank's share of the predictions for examples, which need no labels; zero for examples of
  // other ranks.
  std::vector<double> predict(const std::vector<EncodedSentence>& examples, int64_t rank,
                              int64_t ranks);

 private:
  struct Batch;
  std::vector<const EncodedSentence*> examples_of(Slice slice) const;
  Batch upload(const std::vector<const EncodedSentence*>& examples) const;
  // Logits of this rank's batches, each with the number of its first example.
  void each_batch(const std::vector<const EncodedSentence*>& examples, int64_t rank, int64_t ranks,
                  const std::function<void(int64_t first, const Batch&, const torch::Tensor&)>& f);
  torch::Tensor logits(const Batch& batch, const DropoutKey& dropout) const;
  // () float64: summed over the examples.
  torch::Tensor loss(const torch::Tensor& logits, const torch::Tensor& labels) const;
  torch::Tensor predictions(const torch::Tensor& logits) const;
  DropoutKey dropout_key(Slice slice, std::size_t examples) const;

  SequenceClassifier model_;
  const SentenceTask& task_;
  std::vector<EncodedSentence> training_;
  std::vector<SentencePart> parts_;
  SentenceSettings settings_;
  double flops_per_token_ = 0;
};

}  // namespace hydramix
