// SPDX-License-Identifier: Apache-2.0
// The sentence patterns of the language, and which words of a pattern are determined by which
// others.
//
// A pattern is a sequence of fixed words and slots. Slots are filled from a class of words,
// uniformly. Two slots of a sentence may be linked: then their words come from the same group of
// their classes (anna - she, dogs - are, an - old). If a group has one word, the other slot
// determines it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hydramix {

struct Pattern {
  struct Place {
    std::vector<int32_t> words;  // a fixed word, or all words of the slot's class
    int64_t groups = 1;          // of the slot's class
    std::string slot;            // its name; empty for a fixed word
    int64_t linked = -1;         // the position of the linked slot
    bool is_count = false;       // a number word that counts the items after it
    // For a fixed word: alternative sets of positions that determine it.
    std::vector<std::vector<int64_t>> determined_by;
  };
  std::vector<Place> places;
  int64_t weight = 0;  // how often it is chosen among the sentences that state no fact
};

class Grammar {
 public:
  Grammar();

  const std::vector<Pattern>& patterns() const { return patterns_; }
  // Two wordings each of "object has colour" and "name is in city". Their first slot is the key
  // of the fact, the second its value.
  const std::vector<std::vector<int64_t>>& fact_patterns() const { return fact_patterns_; }
  // Accuracy of always guessing the most frequent word.
  double blind_guess() const { return blind_guess_; }

 private:
  int64_t add(const std::string& text, int64_t weight);
  void find_determining_words();
  bool may_follow(int32_t word, int64_t sentence_place) const;
  bool may_precede(int32_t word, int64_t places_before_end) const;
  bool is_determined(const Pattern& pattern, const std::vector<int64_t>& given,
                     int64_t wanted) const;

  std::vector<Pattern> patterns_;
  std::vector<std::vector<int64_t>> fact_patterns_;
  double blind_guess_ = 0;
};

}  // namespace hydramix
