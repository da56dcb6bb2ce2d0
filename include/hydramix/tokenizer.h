// SPDX-License-Identifier: Apache-2.0
// BERT's WordPiece tokenizer, uncased and cased. Ids and offsets equal those of the Hugging Face
// tokenizer for any Unicode text. Needs no LibTorch; thread-safe.
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
  bool clean_text = true;      // drop control characters, turn white space into blanks
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

// Ids of the special tokens.
struct SpecialTokens {
  int32_t pad, unknown, cls, sep, mask;
};

class Tokenizer {
 public:
  // Loads a vocab.txt (one token per line) or a Hugging Face tokenizer.json, recognised by its
  // contents. The latter has its own options and ignores `options`. An Error names the file, and
  // the missing special token or the key that is not BERT's.
  static Tokenizer load(const std::filesystem::path& path, const TokenizerOptions& options = {});
  // The same from the text of such a file; `origin` names it in errors.
  static Tokenizer parse(std::string_view text, const std::string& origin,
                         const TokenizerOptions& options = {});
  // Token k has id k; `origin` replaces the path in errors.
  static Tokenizer from_tokens(std::vector<std::string> tokens, const TokenizerOptions& options,
                               const std::string& origin);

  // Appends the ids of `text`, without [CLS] and [SEP]. Bytes that are not UTF-8 are an Error that
  // names the first of them; `ids` then stays unchanged.
  void append_ids(std::string_view text, std::vector<int32_t>& ids) const;
  // [CLS] text [SEP], truncated to `max_length` tokens including these (0: no limit).
  Encoding encode(std::string_view text, int64_t max_length = 0) const;
  // [CLS] first [SEP] second [SEP]; truncates the longer of the two.
  Encoding encode_pair(std::string_view first, std::string_view second,
                       int64_t max_length = 0) const;
  // encode() of each text with `threads` threads; 0: one per core.
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
  // Hash of the tokens and options, 16 hex digits. Identifies the tokenizer of a data set.
  std::string fingerprint() const;
  // Writes a tokenizer.json that load() and Hugging Face read as the same tokenizer.
  void save(const std::filesystem::path& path) const;

 private:
  struct Contents;
  explicit Tokenizer(std::shared_ptr<const Contents> contents);
  std::shared_ptr<const Contents> contents_;
};

}  // namespace hydramix
