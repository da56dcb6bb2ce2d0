// SPDX-License-Identifier: Apache-2.0
#include "language/grammar.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>

#include "hydramix/error.h"
#include "language/lexicon.h"

namespace hydramix {
namespace {

// Slots are written in capitals; a digit distinguishes two of the same class.
struct SlotRule {
  std::string_view slot, word_class, linked_to;
};
constexpr SlotRule kSlots[] = {
    {"OBJECT", "object", ""},       {"CITY", "city", ""},
    {"NAME", "name", ""},           {"COLOUR", "colour", ""},
    {"PRONOUN", "pronoun", "NAME"}, {"ANIMAL", "animal", ""},
    {"BE", "be", "ANIMAL"},         {"THING", "thing", ""},
    {"ADJECTIVE", "adjective", ""}, {"ARTICLE", "article", "ADJECTIVE"},
    {"MOOD", "mood", ""},           {"QUALITY", "quality", ""},
    {"FEELING", "mood", "QUALITY"}, {"WORK", "work", ""},
    {"OPEN", "opening", ""},        {"CLOSE", "closing", "OPEN"},
    {"GOODS", "goods", ""},         {"FIND", "find", ""},
};

const SlotRule* slot_rule(std::string_view slot) {
  for (const auto& rule : kSlots)
    if (rule.slot == slot) return &rule;
  return nullptr;
}

std::vector<int32_t> ids_of(const std::vector<std::string>& words) {
  std::vector<int32_t> ids;
  for (const auto& word : words) ids.push_back(vocabulary_id(word));
  return ids;
}

bool allows(const Pattern::Place& place, int32_t word) {
  return std::find(place.words.begin(), place.words.end(), word) != place.words.end();
}

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Grammar::Grammar() {
  // Key and value are close together, at the same distance in both wordings. Two layers can then
  // look one up by the other, and both wordings share what was learned.
  fact_patterns_ = {
      {add("surely the OBJECT looks COLOUR .", 0), add("what colour is the OBJECT ? COLOUR .", 0)},
      {add("today NAME visits CITY .", 0), add("where is NAME ? CITY .", 0)}};
  add("the ANIMAL that NAME saw BE MOOD .", 6);
  add("NAME ran because PRONOUN was MOOD .", 6);
  add("before PRONOUN left , NAME was MOOD .", 6);
  add("it rained OPEN as NAME feared CLOSE .", 6);
  add("NAME found ARTICLE1 ADJECTIVE1 FIND1 and ARTICLE2 ADJECTIVE2 FIND2 .", 3);
  add("NAME bought two things : GOODS1 and GOODS2 .", 1);
  add("NAME bought three things : GOODS1 , GOODS2 and GOODS3 .", 1);
  add("NAME bought four things : GOODS1 , GOODS2 , GOODS3 and GOODS4 .", 1);
  add("the WORK was QUALITY , so NAME was FEELING .", 1);
  find_determining_words();
}

int64_t Grammar::add(const std::string& text, int64_t weight) {
  Pattern pattern;
  pattern.weight = weight;
  std::istringstream words(text);
  std::map<std::string, int64_t> slots;
  for (std::string word; words >> word;) {
    Pattern::Place place;
    std::string name = word, number;
    if (name.size() > 1 && name.back() >= '1' && name.back() <= '9') {
      number = name.back();
      name.pop_back();
    }
    if (const SlotRule* rule = slot_rule(name)) {
      const WordClass& words_of = word_class(rule->word_class);
      place.words = ids_of(words_of.words);
      place.groups = words_of.groups;
      place.slot = word;
      slots[word] = static_cast<int64_t>(pattern.places.size());
    } else {
      place.words = {vocabulary_id(word)};
      const auto& numbers = word_class("number").words;
      place.is_count = std::find(numbers.begin(), numbers.end(), word) != numbers.end();
    }
    pattern.places.push_back(std::move(place));
  }
  for (const auto& [slot, i] : slots) {
    const bool numbered = slot.back() <= '9';
    const SlotRule* rule = slot_rule(numbered ? slot.substr(0, slot.size() - 1) : slot);
    if (rule->linked_to.empty()) continue;
    const auto found =
        slots.find(std::string(rule->linked_to) + (numbered ? slot.substr(slot.size() - 1) : ""));
    HYDRAMIX_CHECK(found != slots.end(), "language: the pattern '", text, "' has ", slot,
                   " without ", rule->linked_to, ", which it depends on. Add it.");
    pattern.places[at(i)].linked = found->second;
    pattern.places[at(found->second)].linked = i;
  }
  patterns_.push_back(std::move(pattern));
  return static_cast<int64_t>(patterns_.size()) - 1;
}

// Whether the word can occur at this position of a sentence, or beyond its end.
bool Grammar::may_follow(int32_t word, int64_t sentence_place) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
    return sentence_place >= static_cast<int64_t>(pattern.places.size()) ||
           allows(pattern.places[at(sentence_place)], word);
  });
}

bool Grammar::may_precede(int32_t word, int64_t places_before_end) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
    const auto size = static_cast<int64_t>(pattern.places.size());
    return places_before_end > size || allows(pattern.places[at(size - places_before_end)], word);
  });
}

// Whether the fixed words at the positions `given` determine the fixed word at `wanted` in any
// sentence.
bool Grammar::is_determined(const Pattern& pattern, const std::vector<int64_t>& given,
                            int64_t wanted) const {
  const int32_t word = pattern.places[at(wanted)].words[0];
  for (const auto& other : patterns_) {
    const auto size = static_cast<int64_t>(other.places.size());
    for (int64_t first = 0; first < size; ++first) {
      const auto fits = [&](int64_t place) {
        const int32_t seen = pattern.places[at(place)].words[0];
        const int64_t there = first + place - given[0];
        if (there < 0) return may_precede(seen, -there);
        if (there >= size) return may_follow(seen, there - size);
        return allows(other.places[at(there)], seen);
      };
      if (!std::all_of(given.begin(), given.end(), fits)) continue;
      const int64_t there = first + wanted - given[0];
      if (there < 0 || there >= size) return false;
      const auto& found = other.places[at(there)].words;
      if (found.size() != 1 || found[0] != word) return false;
    }
  }
  return true;
}

void Grammar::find_determining_words() {
  std::map<int32_t, double> frequency;
  double total = 0;
  for (auto& pattern : patterns_) {
    std::vector<int64_t> fixed;
    for (std::size_t i = 0; i < pattern.places.size(); ++i)
      if (pattern.places[i].slot.empty()) fixed.push_back(static_cast<int64_t>(i));
    for (const auto& place : pattern.places) {
      for (const int32_t word : place.words)
        frequency[word] += 1 / static_cast<double>(place.words.size());
      total += 1;
    }
    for (const int64_t wanted : fixed) {
      auto& determined_by = pattern.places[at(wanted)].determined_by;
      const auto covered = [&](int64_t place) {
        return place == wanted || std::find(determined_by.begin(), determined_by.end(),
                                            std::vector{place}) != determined_by.end();
      };
      for (const int64_t i : fixed)
        if (i != wanted && is_determined(pattern, {i}, wanted)) determined_by.push_back({i});
      for (const int64_t i : fixed)
        for (const int64_t j : fixed)
          if (i < j && !covered(i) && !covered(j) && is_determined(pattern, {i, j}, wanted))
            determined_by.push_back({i, j});
      HYDRAMIX_CHECK(!determined_by.empty(), "language: nothing determines the word '",
                     language_vocabulary()[at(pattern.places[at(wanted)].words[0])],
                     "' at position ", wanted,
                     " of a pattern. Give the pattern a word of its own.");
    }
  }
  for (const auto& [word, count] : frequency) blind_guess_ = std::max(blind_guess_, count / total);
}

}  // namespace hydramix
