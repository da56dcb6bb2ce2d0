// SPDX-License-Identifier: Apache-2.0
// Finds tokens such as [MASK] in a text before it is normalised. The leftmost match wins, then the
// longest.
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
  bool special;  // decode() may skip it
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin;
    const AddedToken* token;  // null: no further token, and begin is the end of the text
  };
  Match find(std::string_view text, std::size_t from) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;  // longest first
  std::string first_bytes_;         // each once
  std::array<bool, 256> begins_{};
};

}  // namespace hydramix
