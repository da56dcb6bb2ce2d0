// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

namespace hydramix {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.id < b.id;
  });
  for (const auto& token : tokens_) {
    bool& begins = begins_[static_cast<unsigned char>(token.text[0])];
    if (!begins) first_bytes_ += token.text[0];
    begins = true;
  }
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from) const {
  if (tokens_.empty()) return {text.size(), nullptr};
  for (std::size_t at = from; at < text.size(); ++at) {
    if (first_bytes_.size() == 1) {
      // The usual case. find() of one character runs at memory speed.
      at = text.find(first_bytes_[0], at);
      if (at == std::string_view::npos) break;
    } else if (!begins_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    for (const auto& token : tokens_)
      if (text.compare(at, token.text.size(), token.text) == 0) return {at, &token};
  }
  return {text.size(), nullptr};
}

}  // namespace hydramix
