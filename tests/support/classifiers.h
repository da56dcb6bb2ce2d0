// SPDX-License-Identifier: Apache-2.0
// Small classifiers of text for tests.
#pragma once

#include <string>
#include <vector>

#include "hydramix/sequence_classifier.h"
#include "hydramix/tokenizer.h"
#include "support/models.h"

namespace hydramix::test {

// The special tokens, and the words w0 ... w19 (or more of them).
inline Tokenizer small_tokenizer(int64_t more_words = 0) {
  std::vector<std::string> tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (int64_t i = 0; i < 20 + more_words; ++i) tokens.push_back("w" + std::to_string(i));
  return Tokenizer::from_tokens(tokens, {}, "test");
}

// For small_tokenizer(), with weights large enough that different texts give different logits.
inline SequenceClassifier lively_classifier(int64_t outputs) {
  torch::manual_seed(11);
  auto options = tiny_bert("hydra");
  options.vocab = 25;
  options.initial_deviation = 0.3;
  return SequenceClassifier(options, ClassifierOptions{.outputs = outputs});
}

// The same for a masked-language model.
inline BertForMaskedLM lively_masked_lm() {
  torch::manual_seed(12);
  auto options = tiny_bert("hydra");
  options.vocab = 25;
  options.initial_deviation = 0.3;
  return BertForMaskedLM(options);
}

// `count` of the words of small_tokenizer(), others for each `first`.
inline std::string small_words(int64_t count, int64_t first) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += "w" + std::to_string((first + i * (first + 3)) % 20) + " ";
  return text;
}

}  // namespace hydramix::test
