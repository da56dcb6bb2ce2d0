// SPDX-License-Identifier: Apache-2.0
// What a Tokenizer shares with its copies. Never changed once it is made.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hydramix/tokenizer.h"
#include "text/added_tokens.h"
#include "text/text_encoder.h"

namespace hydramix {

// The five tokens that every BERT has, in their usual order.
inline constexpr std::array<std::string_view, 5> kSpecialTokens = {"[PAD]", "[UNK]", "[CLS]",
                                                                   "[SEP]", "[MASK]"};

struct Tokenizer::Contents {
  // A token is of the model, and then part of words, or only among the added ones. Token k has id
  // k.
  struct Description {
    std::vector<std::string> tokens;
    std::size_t model_size;  // tokens from there on are only added
    std::vector<AddedToken> added;
    TokenizerOptions options;
  };
  // `origin` names the file in errors.
  Contents(Description description, const std::string& origin);

  int32_t find_special(std::string_view name, const std::string& origin) const;

  std::vector<std::string> tokens;
  std::size_t model_size;
  TokenizerOptions options;
  std::unordered_map<std::string_view, int32_t> ids;  // views of `tokens`
  AddedTokens added;
  std::vector<bool> is_special;
  SpecialTokens special;
  TextEncoder encoder;
};

}  // namespace hydramix
