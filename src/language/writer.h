// SPDX-License-Identifier: Apache-2.0
// Writes one document of the language: plans its facts, adds other sentences, shuffles them, and
// records the evidence for every word.
#pragma once

#include <array>

#include "base/random.h"
#include "language/grammar.h"
#include "language/language.h"

namespace hydramix {

class Writer {
 public:
  Writer(const Grammar& grammar, const Random& random, const LanguageOptions& options)
      : grammar_(grammar), random_(random), options_(options) {}

  Document write();

 private:
  struct Fact {
    std::size_t sort;                                // which of grammar.fact_patterns()
    std::size_t key, value;                          // index in their classes
    std::vector<std::array<int32_t, 2>> mentions{};  // positions of key and value
  };
  struct Sentence {
    const Pattern* pattern;
    int64_t fact;  // -1: none
  };
  using Choice = std::vector<std::size_t>;  // of each place's words

  bool single_fact() const { return options_.sorts * options_.facts == 1; }
  void plan_facts(int64_t words);
  void plan_others(int64_t target);
  const Pattern& other_pattern();
  Choice fill(const Pattern& pattern);
  Choice state(const Pattern& pattern, Fact& fact) const;
  void append(const Pattern& pattern, const Choice& choice);
  void add_fact_evidence();
  int64_t planned_words() const;

  const Grammar& grammar_;
  Random random_;
  const LanguageOptions& options_;
  std::vector<Fact> facts_;
  std::vector<Sentence> sentences_;
  Document document_;
};

}  // namespace hydramix
