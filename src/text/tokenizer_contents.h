// SPDX-License-Identifier: Apache-2.0
// Immutable data that a Tokenizer shares with its copies.
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
  // Token k has id k. A token belongs to the model, and then words may contain it, or is only an
  // added token.
  struct Description {
    std::vector<std::string> tokens;
    std::size_t model_size;  // tokens from this index on are only added tokens
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
