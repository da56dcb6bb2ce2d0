// SPDX-License-Identifier: Apache-2.0
// Maps texts to vectors, for search and clustering. This header needs no LibTorch:
//
//   const auto embedder = hydramix::TextEmbedder::open("runs/tiny/model", {.normalize = true});
//   const auto a = embedder.embed("A dog runs."), b = embedder.embed("An animal moves.");
//   const float cosine = std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hydramix/text_model.h"

namespace hydramix {

// Tokens to which texts are cut for a pretrained model, if max_length is 0.
inline constexpr int64_t kEmbeddedLength = 512;

class TextEmbedder {
 public:
  struct Options {
    // "mean": the mean of the encoder's outputs over all tokens of the text, [CLS] and [SEP]
    // included, as in training with that pooling. "cls": the output at [CLS]; a pretrained model
    // has not trained it, and to a causal mixer it shows nothing of the text. Empty: a classifier's
    // own, else "mean".
    std::string pooling = "";
    bool normalize = false;  // to Euclidean length 1; a zero vector stays zero
    TextModelOptions model = {};
  };
  struct Embedding {
    std::vector<float> vector;  // width()
    TextTokens tokens;
  };

  // A folder with config.json, model.safetensors and tokenizer.json, of a pretrained model or of a
  // classifier (its encoder is used). Every failure is an Error that names the file.
  static TextEmbedder open(const std::filesystem::path& folder, const Options& options);
  static TextEmbedder open(const std::filesystem::path& folder) { return open(folder, Options()); }

  // One result per text, in order. A text that cannot be used, or whose vector is not finite, is a
  // TextError. Thread-safe.
  std::vector<Embedding> embed(std::span<const std::string> texts) const;
  std::vector<float> embed(const std::string& text) const;

  int64_t width() const;  // of a vector: d_model
  int64_t max_length() const;
  const std::string& pooling() const { return options_.pooling; }

  TextEmbedder(std::shared_ptr<const TextModel> model, const Options& options);  // internal

 private:
  std::shared_ptr<const TextModel> model_;
  Options options_;
};

}  // namespace hydramix
