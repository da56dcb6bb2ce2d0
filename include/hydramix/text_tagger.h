// SPDX-License-Identifier: Apache-2.0
// Tags the words of sentences with a fine-tuned model: names, parts of speech. This header needs no
// LibTorch:
//
//   const auto tagger = hydramix::TextTagger::open("runs/names/model");
//   for (const auto& word : tagger.tag({"Anna", "visits", "Rome"})) std::cout << word.tag << '\n';
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hydramix/text_model.h"

namespace hydramix {

class TextTagger {
 public:
  using Words = std::vector<std::string>;
  struct Tag {
    std::string tag;         // empty for a word that was cut off, or that has no token
    double probability = 0;  // of the tag
  };

  // A folder with config.json, model.safetensors and tokenizer.json, of a model that was trained
  // for tags. Every failure is an Error that names the file.
  static TextTagger open(const std::filesystem::path& folder, const TextModelOptions& options);
  static TextTagger open(const std::filesystem::path& folder) { return open(folder, {}); }

  // A tag for each word of each sentence, in order. A sentence that cannot be used, or whose answer
  // is not finite, is a TextError. Thread-safe.
  std::vector<std::vector<Tag>> tag(std::span<const Words> sentences) const;
  std::vector<Tag> tag(const Words& sentence) const;

  const std::vector<std::string>& tags() const;
  int64_t max_length() const;

  explicit TextTagger(std::shared_ptr<const TextModel> model);  // internal

 private:
  std::shared_ptr<const TextModel> model_;
};

}  // namespace hydramix
