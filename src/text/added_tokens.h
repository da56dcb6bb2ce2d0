// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in a text as it stands, before it is normalised: [MASK] and its like. The
// leftmost match wins, and of those that begin there the longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

struct AddedToken {
  std::string text;
  int32_t id;
  bool special;  // decode() may leave it out
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin;
    const AddedToken* token;  // null: none from there on, and begin is the end of the text
  };
  Match find(std::string_view text, std::size_t from) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;  // longest first
  std::string first_bytes_;         // each once
  std::array<bool, 256> begins_{};
};

}  // namespace hydramix
