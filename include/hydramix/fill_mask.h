// SPDX-License-Identifier: Apache-2.0
// Predicts the words at [MASK] with a pretrained model. This header needs no LibTorch:
//
//   const auto model = hydramix::FillMask::open("runs/tiny/model");
//   for (const auto& word : model.fill("the [MASK] of france").masks[0])
//     std::cout << word.token << ' ' << word.probability << '\n';
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hydramix/text_model.h"

namespace hydramix {

class FillMask {
 public:
  struct Word {
    std::string token;  // of the vocabulary; "##ing" continues a word
    int32_t id = 0;
    double probability = 0;
  };
  struct Answer {
    std::vector<std::vector<Word>> masks;  // for each [MASK] of the text, the likeliest word first
    TextTokens tokens;
  };

  // A folder with config.json, model.safetensors and tokenizer.json of a pretrained model. Every
  // failure is an Error that names the file.
  static FillMask open(const std::filesystem::path& folder, const TextModelOptions& options = {});

  // One answer per text, in order, with `top` words for each [MASK] (or the whole vocabulary, if
  // that is smaller). A text without [MASK], or with one in the part that is cut off, is a
  // TextError. Thread-safe.
  std::vector<Answer> fill(std::span<const std::string> texts, int64_t top = 5) const;
  Answer fill(const std::string& text, int64_t top = 5) const;

  int64_t max_length() const;  // 0: no limit

  explicit FillMask(std::shared_ptr<const TextModel> model);  // internal

 private:
  std::shared_ptr<const TextModel> model_;
};

}  // namespace hydramix
