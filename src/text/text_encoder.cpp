// SPDX-License-Identifier: Apache-2.0
#include "text/text_encoder.h"

#include "text/unicode.h"

namespace hydramix {
namespace {

std::size_t longest_word_bytes(const TokenizerOptions& options) {
  return 4 * static_cast<std::size_t>(options.longest_word);
}

}  // namespace

TextEncoder::TextEncoder(std::span<const std::string> tokens, int32_t unknown,
                         const TokenizerOptions& options)
    : options_(options),
      normalizer_(options),
      trie_(tokens, options.prefix, longest_word_bytes(options)),
      unknown_(unknown) {
  for (const auto& token : tokens) token_bytes_.push_back(token.size());
  const uint8_t* properties = unicode::properties();
  kinds_.fill(Kind::kOther);
  for (unsigned char c = 0; c < 0x80; ++c) {
    const uint8_t property = properties[c];
    if (options.clean_text && (property & unicode::kControl) != 0) continue;
    kinds_[c] = (property & unicode::kWhiteSpace) != 0 ? Kind::kBlank
                : (property & unicode::kPunct) != 0    ? Kind::kPunctuation
                                                       : Kind::kLetter;
    letters_[c] =
        options.lowercase && c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c - 'A' + 'a') : c;
  }
}

// Appends the pieces of the ASCII word at `begin` and returns its end.
std::size_t TextEncoder::append_ascii_word(std::string_view text, std::size_t begin,
                                           std::vector<int32_t>& ids) const {
  std::size_t end = begin + 1;
  if (kind(text[begin]) == Kind::kLetter)
    while (end < text.size() && kind(text[end]) == Kind::kLetter) ++end;
  const std::size_t before = ids.size();
  bool fits = static_cast<int64_t>(end - begin) <= options_.longest_word;
  int32_t node = PieceTrie::kStart;
  for (std::size_t at = begin; fits && at < end; ++at) {
    node = trie_.step(node, letters_[static_cast<unsigned char>(text[at])], ids);
    fits = node != PieceTrie::kNone;
  }
  if (!fits || !trie_.finish(node, ids)) {
    ids.resize(before);
    ids.push_back(unknown_);
  }
  return end;
}

int64_t TextEncoder::append(std::string_view text, std::size_t begin, int64_t first,
                            EncoderOutput& out) const {
  std::vector<int32_t>& ids = out.ids;
  Offsets* offsets = out.offsets;
  // Character index = byte index + shift, as long as the text is ASCII.
  int64_t shift = first - static_cast<int64_t>(begin);
  Scratch scratch;
  std::size_t at = begin;
  std::size_t stretch = at, stretch_ids = ids.size();  // start of the text after the last blank
  while (at < text.size() && !out.full) {
    const Kind what = kind(text[at]);
    if (what == Kind::kBlank) {
      stretch = ++at;
      stretch_ids = ids.size();
    } else if (what == Kind::kOther) {
      // The bytes since the last blank may combine with this character: encode them again.
      ids.resize(stretch_ids);
      if (offsets != nullptr) offsets->resize(stretch_ids);
      while (at < text.size() && kind(text[at]) != Kind::kBlank) ++at;
      const int64_t count = append_normalized(text.substr(0, at), stretch,
                                              static_cast<int64_t>(stretch) + shift, out, scratch);
      shift += count - static_cast<int64_t>(at - stretch);
    } else {
      const std::size_t before = ids.size();
      const std::size_t end = append_ascii_word(text, at, ids);
      if (offsets != nullptr) {
        const bool whole = ids.size() == before + 1;
        std::size_t from = at;
        for (std::size_t k = before; k < ids.size(); ++k) {
          const std::size_t to = whole ? end : from + piece_bytes(ids[k], k > before);
          offsets->push_back(
              {static_cast<int64_t>(from) + shift, static_cast<int64_t>(to) + shift});
          from = to;
        }
      }
      at = end;
      // Another character may continue the word: then the whole stretch is encoded again.
      if (at == text.size() || kind(text[at]) != Kind::kOther) out.end_word();
    }
  }
  return static_cast<int64_t>(text.size()) + shift - first;
}

int64_t TextEncoder::append_normalized(std::string_view text, std::size_t begin, int64_t first,
                                       EncoderOutput& out, Scratch& scratch) const {
  std::vector<int32_t>& ids = out.ids;
  Offsets* offsets = out.offsets;
  std::string& bytes = scratch.bytes;
  std::vector<int64_t>& origins = scratch.origins;
  const int64_t count = normalizer_.normalize(text, begin, first, scratch.characters);
  for_each_word(scratch.characters, [&](std::span<const NormalCharacter> word) {
    if (out.full) return;
    const std::size_t before = ids.size();
    bytes.clear();
    origins.clear();
    bool fits = static_cast<int64_t>(word.size()) <= options_.longest_word;
    int32_t node = PieceTrie::kStart;
    for (std::size_t k = 0; fits && k < word.size(); ++k) {
      const std::size_t from = bytes.size();
      unicode::append_utf8(word[k].c, bytes);
      if (offsets != nullptr) origins.resize(bytes.size(), word[k].origin);
      for (std::size_t byte = from; fits && byte < bytes.size(); ++byte) {
        node = trie_.step(node, static_cast<unsigned char>(bytes[byte]), ids);
        fits = node != PieceTrie::kNone;
      }
    }
    fits = fits && trie_.finish(node, ids);
    if (!fits) {
      ids.resize(before);
      ids.push_back(unknown_);
    }
    out.end_word();
    if (offsets == nullptr) return;
    if (!fits) return offsets->push_back({word.front().origin, word.back().origin + 1});
    std::size_t from = 0;
    for (std::size_t k = before; k < ids.size(); ++k) {
      const std::size_t to = from + piece_bytes(ids[k], k > before);
      offsets->push_back({origins[from], origins[to - 1] + 1});
      from = to;
    }
  });
  return count;
}

}  // namespace hydramix
