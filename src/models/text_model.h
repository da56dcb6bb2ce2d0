// SPDX-License-Identifier: Apache-2.0
// An encoder with its tokenizer, on a device: runs any number of texts in packed batches. The
// common part of TextClassifier, TextTagger, TextEmbedder and FillMask.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "hydramix/bert.h"
#include "hydramix/graphed_encoder.h"
#include "hydramix/model_folder.h"
#include "hydramix/text_model.h"
#include "hydramix/tokenizer.h"
#include "models/packed_ids.h"

namespace hydramix {

// For a classifier or a tagger that does not state its training length.
inline constexpr int64_t kUsualClassifierLength = 256;

class TextModel {
 public:
  // `usual_length` is for models that do not state the length of their training; 0: no limit.
  TextModel(BertForMaskedLM model, Tokenizer tokenizer, const TextModelOptions& options,
            int64_t usual_length);
  TextModel(ClassifierFolder classifier, Tokenizer tokenizer, const TextModelOptions& options,
            int64_t usual_length);

  // The model or classifier of a folder, with its tokenizer.json.
  static std::shared_ptr<const TextModel> open(const std::filesystem::path& folder,
                                               const TextModelOptions& options,
                                               int64_t usual_length);

  // One of the two is empty.
  const BertForMaskedLM& masked_lm() const { return masked_lm_; }
  const ClassifierFolder& classifier() const { return classifier_; }
  const torch::nn::Module& module() const;  // that of the two
  const BertEncoder& encoder() const;
  const BertOptions& encoder_options() const { return encoder()->options(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t max_length() const { return max_length_; }  // 0: no limit

  // encode_one(k, max_length) for every text; its Error becomes a TextError.
  std::vector<Encoding> encode_texts(
      std::size_t count, const std::function<Encoding(std::size_t, int64_t)>& encode_one) const;
  // Counts what encode_one(max_length) made of a text.
  TextTokens tokens_of(const Encoding& encoding,
                       const std::function<Encoding(int64_t)>& encode_one) const;

  // Hidden states (1, n, d_model) of a batch. `observe`: see BertEncoderImpl::encode().
  torch::Tensor hidden(const PackedBatch& batch,
                       const std::function<void(const torch::Tensor&)>& observe = {}) const;
  // Calls run(texts, batch) with texts of similar length together; `texts` are their indices, in
  // the order of the batch.
  void for_each_batch(
      std::span<const Encoding> encodings,
      const std::function<void(std::span<const std::size_t>, const PackedBatch&)>& run) const;

 private:
  void prepare(const TextModelOptions& options, int64_t usual_length);
  bool has_graph(const PackedBatch& batch) const;

  BertForMaskedLM masked_lm_{nullptr};
  ClassifierFolder classifier_;
  Tokenizer tokenizer_;
  int64_t max_length_ = 0, batch_tokens_ = 0;
  torch::Device device_ = torch::kCPU;
  bool own_streams_ = false;
  std::unique_ptr<GraphedEncoder> graphs_;
  mutable std::mutex graphs_in_use_;
};

}  // namespace hydramix
