// SPDX-License-Identifier: Apache-2.0
// torch.classes.hydramix.Tokenizer, which python/hydramix/tokenizer.py wraps. LibTorch releases
// Python's lock during calls.
#pragma once

#include <torch/custom_class.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "hydramix/tokenizer.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

class TokenizerClass : public torch::CustomClassHolder {
 public:
  // The text of a vocab.txt or a tokenizer.json; `lowercase` applies to the former.
  TokenizerClass(std::string text, bool lowercase, const std::string& origin);
  static c10::intrusive_ptr<TokenizerClass> load(const std::string& path, bool lowercase);

  // ids (n), type ids (n), offsets of the sequences (texts + 1), positions in the text (n, 2)
  using Batch = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor>;
  // One encoding for each text, or for each pair of texts if there are second ones.
  Batch encode(const std::vector<std::string>& texts, const std::vector<std::string>& pairs,
               int64_t max_length, int64_t threads) const;
  std::string decode(const std::vector<int64_t>& ids, bool skip_special) const;

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const std::string& text() const { return text_; }
  bool lowercase() const { return lowercase_; }

 private:
  std::string text_;
  bool lowercase_;
  Tokenizer tokenizer_;
};

// Functions that take a tokenizer must be defined after it is registered.
void register_tokenizer(torch::Library& m);

}  // namespace hydramix
