// SPDX-License-Identifier: Apache-2.0
// The reference tokenizer: applies each step to the whole text, then finds the longest token by
// trying all lengths.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hydramix/tokenizer.h"
#include "text/unicode.h"

namespace hydramix::test {

struct Placed {
  char32_t c;
  int64_t origin;
};
using Characters = std::vector<Placed>;

inline bool has(char32_t c, unicode::Property property) {
  return (unicode::properties()[c] & property) != 0;
}

inline Characters decode_utf8(const std::string& text) {
  Characters result;
  for (std::size_t at = 0; at < text.size();) {
    const auto origin = static_cast<int64_t>(result.size());
    result.push_back({unicode::next_character(text, at), origin});
  }
  return result;
}

inline std::string encode_utf8(const Characters& characters, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t k = begin; k < end; ++k) unicode::append_utf8(characters[k].c, text);
  return text;
}

inline Characters clean(const Characters& text) {
  Characters result;
  for (const auto& [c, origin] : text) {
    if (has(c, unicode::kControl)) continue;
    result.push_back({has(c, unicode::kWhiteSpace) ? U' ' : c, origin});
  }
  return result;
}

inline Characters space_chinese(const Characters& text) {
  Characters result;
  for (const auto& item : text) {
    const bool chinese = has(item.c, unicode::kChinese);
    if (chinese) result.push_back({U' ', item.origin});
    result.push_back(item);
    if (chinese) result.push_back({U' ', item.origin});
  }
  return result;
}

// Neighbours are swapped as long as the second has the lower class and neither class is 0. Origins
// keep the order of the text: a character that no decomposition added takes the next.
inline Characters strip_accents(const Characters& text) {
  struct Part {
    char32_t c;
    bool added;
  };
  std::vector<Part> parts;
  for (const auto& item : text) {
    const auto decomposition = unicode::decompose(item.c);
    for (std::size_t k = 0; k < decomposition.size; ++k)
      parts.push_back({decomposition.parts[k], k > 0});
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t k = 1; k < parts.size(); ++k) {
      const int before = unicode::combining_class(parts[k - 1].c);
      const int after = unicode::combining_class(parts[k].c);
      if (after == 0 || before <= after) continue;
      std::swap(parts[k - 1], parts[k]);
      changed = true;
    }
  }
  Characters result;
  std::size_t place = 0;
  for (const Part& part : parts) {
    if (!part.added) ++place;
    if (!has(part.c, unicode::kMark)) result.push_back({part.c, text[place - 1].origin});
  }
  return result;
}

inline Characters lower_case(const Characters& text) {
  Characters result;
  for (const auto& [c, origin] : text) {
    const auto lower = unicode::to_lower(c);
    result.push_back({lower.first, origin});
    if (lower.second != 0) result.push_back({lower.second, origin});
  }
  return result;
}

inline Characters normalize(Characters text, const TokenizerOptions& options) {
  if (options.clean_text) text = clean(text);
  if (options.space_chinese) text = space_chinese(text);
  if (options.strip_accents) text = strip_accents(text);
  if (options.lowercase) text = lower_case(text);
  return text;
}

inline std::vector<Characters> words_of(const Characters& text) {
  std::vector<Characters> words(1);
  for (const auto& item : text) {
    if (has(item.c, unicode::kWhiteSpace)) {
      words.emplace_back();
    } else if (has(item.c, unicode::kPunct)) {
      words.push_back({item});
      words.emplace_back();
    } else {
      words.back().push_back(item);
    }
  }
  std::erase_if(words, [](const Characters& word) { return word.empty(); });
  return words;
}

class ReferenceTokenizer {
 public:
  ReferenceTokenizer(const std::vector<std::string>& tokens, const TokenizerOptions& options)
      : options_(options) {
    for (std::size_t k = 0; k < tokens.size(); ++k) ids_[tokens[k]] = static_cast<int32_t>(k);
  }

  // Without [CLS] and [SEP]; type_ids stays empty.
  Encoding encode(const std::string& text) const {
    Encoding result;
    Characters between;
    const Characters all = decode_utf8(text);
    for (std::size_t k = 0; k < all.size();) {
      std::size_t end = k;
      for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
        const std::string name = special;
        if (k + name.size() <= all.size() && encode_utf8(all, k, k + name.size()) == name) {
          append_words(between, result);
          between.clear();
          end = k + name.size();
          result.ids.push_back(ids_.at(name));
          result.offsets.push_back({static_cast<int64_t>(k), static_cast<int64_t>(end)});
        }
      }
      if (end == k) between.push_back(all[end++]);
      k = end;
    }
    append_words(between, result);
    return result;
  }

 private:
  void append_words(const Characters& text, Encoding& result) const {
    for (const auto& word : words_of(normalize(text, options_))) append_word(word, result);
  }

  void append_word(const Characters& word, Encoding& result) const {
    Encoding pieces;
    const bool fits = static_cast<int64_t>(word.size()) <= options_.longest_word;
    std::size_t begin = 0;
    while (fits && begin < word.size()) {
      std::size_t end = word.size();
      for (; end > begin; --end) {
        const auto known =
            ids_.find((begin > 0 ? options_.prefix : "") + encode_utf8(word, begin, end));
        if (known == ids_.end()) continue;
        pieces.ids.push_back(known->second);
        pieces.offsets.push_back({word[begin].origin, word[end - 1].origin + 1});
        break;
      }
      if (end == begin) break;
      begin = end;
    }
    if (begin < word.size()) {
      pieces.ids = {ids_.at("[UNK]")};
      pieces.offsets = {{word.front().origin, word.back().origin + 1}};
    }
    result.ids.insert(result.ids.end(), pieces.ids.begin(), pieces.ids.end());
    result.offsets.insert(result.offsets.end(), pieces.offsets.begin(), pieces.offsets.end());
  }

  TokenizerOptions options_;
  std::map<std::string, int32_t> ids_;
};

}  // namespace hydramix::test
