// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <algorithm>

#include "text/unicode.h"

namespace hydramix {
namespace {

// A run of characters whose canonical combining class is not 0, to be sorted by class. Origins are
// not sorted: a character takes the next origin of the run, or, if a decomposition added it, the
// origin of the character before it.
class MarkRun {
 public:
  void add(char32_t c, int64_t origin, bool added) {
    if (!added) places_.push_back(origin);
    marks_.push_back({c, unicode::combining_class(c), added});
  }
  // Appends the run without nonspacing marks, and starts a new run after `origin`.
  void finish(int64_t origin, std::vector<NormalCharacter>& out) {
    const uint8_t* properties = unicode::properties();
    const auto stays = [&](const Mark& mark) { return (properties[mark.c] & unicode::kMark) == 0; };
    if (std::any_of(marks_.begin(), marks_.end(), stays)) {
      std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) {
        return a.combining_class < b.combining_class;
      });
      auto next = places_.begin();
      for (const Mark& mark : marks_) {
        if (!mark.added) before_ = *next++;
        if (stays(mark)) out.push_back({mark.c, before_});
      }
    }
    marks_.clear();
    places_.clear();
    before_ = origin;
  }

 private:
  struct Mark {
    char32_t c;
    int combining_class;
    bool added;
  };
  std::vector<Mark> marks_;
  std::vector<int64_t> places_;
  int64_t before_ = 0;
};

// Canonical decomposition in canonical order, without nonspacing marks.
void strip_accents(std::vector<NormalCharacter>& characters) {
  const uint8_t* properties = unicode::properties();
  const auto is = [&](char32_t c, int property) { return (properties[c] & property) != 0; };
  constexpr int kConcerned = unicode::kDecomposes | unicode::kReorders | unicode::kMark;
  const auto from = std::find_if(characters.begin(), characters.end(),
                                 [&](const auto& item) { return is(item.c, kConcerned); });
  if (from == characters.end()) return;
  std::vector<NormalCharacter> result;
  result.reserve(characters.size());
  result.assign(characters.begin(), from);
  MarkRun run;
  for (auto item = from; item != characters.end(); ++item) {
    const auto [parts, size] = is(item->c, unicode::kDecomposes)
                                   ? unicode::decompose(item->c)
                                   : unicode::Decomposition{{item->c}, 1};
    for (std::size_t k = 0; k < size; ++k) {
      if (is(parts[k], unicode::kReorders)) {
        run.add(parts[k], item->origin, k > 0);
      } else {
        run.finish(item->origin, result);
        if (!is(parts[k], unicode::kMark)) result.push_back({parts[k], item->origin});
      }
    }
  }
  run.finish(0, result);
  characters = std::move(result);
}

void lower_case(std::vector<NormalCharacter>& characters) {
  const uint8_t* properties = unicode::properties();
  std::size_t added = 0;
  for (auto& item : characters) {
    if ((properties[item.c] & unicode::kHasLower) == 0) continue;
    const unicode::Lower lower = unicode::to_lower(item.c);
    // A second character is left to a second pass, which is rarely needed.
    if (lower.second != 0)
      ++added;
    else
      item.c = lower.first;
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
  if (options_.strip_accents) strip_accents(out);
  if (options_.lowercase) lower_case(out);
  return origin - first;
}

}  // namespace hydramix
