// SPDX-License-Identifier: Apache-2.0
// Classifies text with a fine-tuned model. This header needs no LibTorch:
//
//   const auto classifier = hydramix::TextClassifier::open("models/rte");
//   const auto answer = classifier.classify({"A dog runs.", "An animal moves."});
//   std::cout << answer.label << '\n';
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hydramix/text_model.h"

namespace hydramix {

class TextClassifier {
 public:
  struct Text {
    std::string first;
    std::optional<std::string> second = {};  // of a pair
  };
  struct Answer {
    std::string label;                  // of the most probable class; else empty
    double value = 0;                   // the class, counted from 0, or the score; of a model for
                                        // pairs the cosine of both texts; the number of labels
    std::vector<double> probabilities;  // of all labels; empty for a score
    std::vector<std::string> labels;    // of several: those that apply
    TextTokens tokens;
  };

  // A folder with config.json, model.safetensors and tokenizer.json. Texts are truncated to
  // `max_length` tokens including [CLS] and [SEP] (0: as in training), and to the longest sequence
  // that the model accepts. Every failure is an Error that names the file.
  static TextClassifier open(const std::filesystem::path& folder, int64_t max_length = 0);
  static TextClassifier open(const std::filesystem::path& folder, const TextModelOptions& options);

  // One answer per text, in order. A text that cannot be used, or whose answer is not finite, is a
  // TextError. Thread-safe.
  std::vector<Answer> classify(std::span<const Text> texts) const;
  Answer classify(const Text& text) const;

  const std::string& task() const;
  // "classes", "score", "labels" (several may apply) or "pairs" (how similar two texts are). Models
  // of the kind "tokens" are a TextTagger's.
  const std::string& kind() const;
  bool takes_pairs() const;  // whether it was trained on pairs; unknown, so false, before that was
                             // recorded
  // The columns of the user's own training file; empty for GLUE.
  struct Columns {
    std::string text, pair, label, separator;
  };
  Columns columns() const;
  const std::vector<std::string>& labels() const;  // empty for a score
  int64_t max_length() const;

  explicit TextClassifier(std::shared_ptr<const TextModel> model);  // internal

 private:
  std::vector<Answer> similarities(std::span<const Text> texts) const;
  std::shared_ptr<const TextModel> model_;
};

}  // namespace hydramix
