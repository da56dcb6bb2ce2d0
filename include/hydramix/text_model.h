// SPDX-License-Identifier: Apache-2.0
// Options and errors that TextClassifier, TextTagger, TextEmbedder and FillMask share. Needs no
// LibTorch.
//
// Texts are computed in batches without padding. On the CPU the result of a text has the same bits
// whatever is computed with it; on a GPU it may differ by rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "hydramix/error.h"

namespace hydramix {

struct TextModelOptions {
  // Tokens of a text including [CLS] and [SEP]; the rest is cut off. Never more than the model
  // accepts. 0: as in a classifier's training, if that is known; else 256 for TextClassifier and
  // TextTagger, 512 for TextEmbedder, no limit for FillMask.
  int64_t max_length = 0;
  std::string device = "cpu";   // or "cuda"; "auto": a GPU if there is one
  int64_t batch_tokens = 8192;  // computed at once, about; a longer text is computed alone
  // On a GPU: rounds products to bfloat16 and launches small batches as CUDA graphs, captured when
  // the model is opened. Each thread that uses the model gets a stream of its own.
  bool for_serving = false;
};

// How many tokens a text became.
struct TextTokens {
  int64_t count = 0;    // with [CLS] and [SEP]
  int64_t unknown = 0;  // words that are [UNK]: the vocabulary lacks them or their letters
  bool cut = false;     // to max_length
};

// One of several texts cannot be used. what() is "text 2 of 5: ", then reason().
class TextError : public Error {
 public:
  TextError(std::size_t index, std::size_t texts, const std::string& reason)
      : Error(concat("text ", index + 1, " of ", texts, ": ", reason)),
        index_(index),
        reason_(reason) {}
  std::size_t index() const { return index_; }  // from 0
  const std::string& reason() const { return reason_; }

 private:
  std::size_t index_;
  std::string reason_;
};

class TextModel;  // an encoder with its tokenizer; internal

}  // namespace hydramix
