// SPDX-License-Identifier: Apache-2.0
// Decoding of ids to text, and the tokenizer's fingerprint.
#include <fmt/format.h>

#include "base/fnv.h"
#include "hydramix/tokenizer.h"
#include "text/tokenizer_contents.h"

namespace hydramix {
namespace {

// Removes blanks where English has none, in this order, within one token and the blank before it.
constexpr std::array<std::array<std::string_view, 2>, 11> kCleanings = {{{" .", "."},
                                                                         {" ?", "?"},
                                                                         {" !", "!"},
                                                                         {" ,", ","},
                                                                         {" ' ", "'"},
                                                                         {" n't", "n't"},
                                                                         {" 'm", "'m"},
                                                                         {" do not", " don't"},
                                                                         {" 's", "'s"},
                                                                         {" 've", "'ve"},
                                                                         {" 're", "'re"}}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Hashes texts with their lengths, so that "ab", "c" differs from "a", "bc".
class Hash {
 public:
  void add(std::string_view text) {
    add_number(text.size());
    value_ = fnv1a(text, value_);
  }
  void add_number(uint64_t number) {
    for (int k = 0; k < 8; ++k) {
      const char byte = static_cast<char>(number >> 8 * k & 0xFF);
      value_ = fnv1a({&byte, 1}, value_);
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = kFnvStart;
};

}  // namespace

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const std::string& prefix = options().prefix;
  std::string text;
  bool first = true;
  for (const int32_t id : ids) {
    std::string piece = token(id);
    if (skip_special && is_special(id)) continue;
    if (!first) {
      if (piece.starts_with(prefix))
        piece.erase(0, prefix.size());
      else
        piece.insert(0, " ");
    }
    first = false;
    for (const auto& [from, to] : kCleanings) replace_all(piece, from, to);
    text += piece;
  }
  return text;
}

std::string Tokenizer::fingerprint() const {
  Hash hash;
  for (const auto& token : contents_->tokens) hash.add(token);
  hash.add_number(contents_->model_size);
  for (const auto& token : contents_->added.tokens()) {
    hash.add(token.text);
    hash.add_number(token.special ? 1 : 0);
  }
  const TokenizerOptions& o = options();
  for (const bool flag : {o.lowercase, o.strip_accents, o.clean_text, o.space_chinese})
    hash.add_number(flag ? 1 : 0);
  hash.add_number(static_cast<uint64_t>(o.longest_word));
  hash.add(o.prefix);
  return fmt::format("{:016x}", hash.value());
}

}  // namespace hydramix
