// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <algorithm>

#include "text/unicode.h"

namespace hydramix {
namespace {

// Canonical decomposition with canonical order. A character keeps its place when it only changes
// or moves: the k-th character that is no addition stands where the k-th stood before. An addition
// (the second part of a decomposition) stands where the character before it does.
void decompose(std::vector<NormalCharacter>& characters) {
  const uint8_t* properties = unicode::properties();
  const auto concerned = [&](const NormalCharacter& item) {
    return (properties[item.c] & (unicode::kDecomposes | unicode::kReorders)) != 0;
  };
  const auto from = std::find_if(characters.begin(), characters.end(), concerned);
  if (from == characters.end()) return;

  struct Part {
    char32_t c;
    int combining_class;
    bool added;
  };
  std::vector<Part> parts;
  std::vector<char32_t> decomposition;
  std::size_t pending = 0;  // where the run of characters that may change places begins
  const auto order = [&] {
    std::stable_sort(
        parts.begin() + static_cast<std::ptrdiff_t>(pending), parts.end(),
        [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
  };
  for (auto item = from; item != characters.end(); ++item) {
    decomposition.clear();
    if (concerned(*item))
      unicode::append_decomposition(item->c, decomposition);
    else
      decomposition.push_back(item->c);
    for (std::size_t k = 0; k < decomposition.size(); ++k) {
      const int combining_class = unicode::combining_class(decomposition[k]);
      if (combining_class == 0) order();
      parts.push_back({decomposition[k], combining_class, k > 0});
      if (combining_class == 0) pending = parts.size();
    }
  }
  order();

  std::vector<NormalCharacter> result(characters.begin(), from);
  auto place = from;
  for (const Part& part : parts) {
    const int64_t origin = part.added ? std::prev(place)->origin : (place++)->origin;
    result.push_back({part.c, origin});
  }
  characters = std::move(result);
}

void lower_case(std::vector<NormalCharacter>& characters) {
  const uint8_t* properties = unicode::properties();
  std::size_t added = 0;
  for (auto& item : characters) {
    if ((properties[item.c] & unicode::kHasLower) == 0) continue;
    // An addition is left for a second pass, which hardly any text needs.
    if (unicode::to_lower(item.c).second != 0)
      ++added;
    else
      item.c = unicode::to_lower(item.c).first;
  }
  if (added == 0) return;
  std::vector<NormalCharacter> result;
  result.reserve(characters.size() + added);
  for (const auto& item : characters) {
    const unicode::Lower lower = unicode::to_lower(item.c);
    result.push_back({lower.first, item.origin});
    if (lower.second != 0) result.push_back({lower.second, item.origin});
  }
  characters = std::move(result);
}

}  // namespace

int64_t Normalizer::normalize(std::string_view text, std::size_t begin, int64_t first,
                              std::vector<NormalCharacter>& out) const {
  const uint8_t* properties = unicode::properties();
  out.clear();
  int64_t origin = first;
  for (std::size_t at = begin; at < text.size(); ++origin) {
    char32_t c = unicode::next_character(text, at);
    const uint8_t property = properties[c];
    if (options_.clean_text) {
      if ((property & unicode::kControl) != 0) continue;
      if ((property & unicode::kWhiteSpace) != 0) c = ' ';
    }
    const bool spaced = options_.space_chinese && (property & unicode::kChinese) != 0;
    if (spaced) out.push_back({' ', origin});
    out.push_back({c, origin});
    if (spaced) out.push_back({' ', origin});
  }
  if (options_.strip_accents) {
    decompose(out);
    std::erase_if(out, [&](const NormalCharacter& item) {
      return (properties[item.c] & unicode::kMark) != 0;
    });
  }
  if (options_.lowercase) lower_case(out);
  return origin - first;
}

}  // namespace hydramix
