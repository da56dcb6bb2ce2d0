// SPDX-License-Identifier: Apache-2.0
// BERT's WordPiece tokenizer, uncased and cased. Ids and offsets are those of the Hugging Face
// tokenizer for any Unicode text. Without LibTorch; safe to use from many threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

struct TokenizerOptions {
  bool lowercase = true;       // and strip accents
  bool strip_accents = true;   // by canonical decomposition
  bool clean_text = true;      // drop control characters, make every white space a blank
  bool space_chinese = true;   // CJK ideographs are words of their own
  int64_t longest_word = 100;  // characters; a longer word is [UNK]
  std::string prefix = "##";   // of a piece that continues a word
  static TokenizerOptions cased();
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<std::array<int64_t, 2>> offsets;  // [begin, end) in characters of the text
  std::vector<int32_t> type_ids;                // 0 in the first text, 1 in the second
};

// The tokens that a model needs to find by name.
struct SpecialTokens {
  int32_t pad, unknown, cls, sep, mask;
};

class Tokenizer {
 public:
  // A vocab.txt (a token a line) or a Hugging Face tokenizer.json, told apart by their contents;
  // the latter has its own options, and `options` is not used. An Error names the file, and the
  // special token that is missing or the key that is not BERT's.
  static Tokenizer load(const std::filesystem::path& path, const TokenizerOptions& options = {});
  // Token k has id k; `origin` stands for the path in errors.
  static Tokenizer from_tokens(std::vector<std::string> tokens, const TokenizerOptions& options,
                               const std::string& origin);

  // Appends the ids of `text`, without [CLS] and [SEP]. Bytes that are not UTF-8 are an Error that
  // names the first of them, and `ids` stays as it was.
  void append_ids(std::string_view text, std::vector<int32_t>& ids) const;
  // [CLS] text [SEP], cut to `max_length` tokens with these (0: not cut).
  Encoding encode(std::string_view text, int64_t max_length = 0) const;
  // [CLS] first [SEP] second [SEP]; what is too long is cut from the longer of the two.
  Encoding encode_pair(std::string_view first, std::string_view second,
                       int64_t max_length = 0) const;
  // encode() of each, by `threads` threads; 0: one a core.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts, int64_t max_length = 0,
                                     int threads = 0) const;
  // Words joined by blanks, pieces joined to their words, no blank before . , ! and ?
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  int64_t size() const;
  const std::string& token(int32_t id) const;  // Error when out of range
  std::optional<int32_t> find(std::string_view token) const;
  const SpecialTokens& special() const;
  bool is_special(int32_t id) const;
  const TokenizerOptions& options() const;
  // Of the tokens and options, 16 hex digits: data made with another tokenizer can be told.
  std::string fingerprint() const;
  // A tokenizer.json that load() and Hugging Face read back to the same tokenizer.
  void save(const std::filesystem::path& path) const;

 private:
  struct Contents;
  explicit Tokenizer(std::shared_ptr<const Contents> contents);
  std::shared_ptr<const Contents> contents_;
};

}  // namespace hydramix
