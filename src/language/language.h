// SPDX-License-Identifier: Apache-2.0
// A built-in language that reads like simple English. For each word of a document the generator
// knows which other words determine it, on which side they stand, and how well it can be guessed
// without them. A masked language model can thus be scored by kind of dependency, and compared with
// the best achievable accuracy. docs/language.md shows an example.
//
// Documents are a pure function of (seed, split, index): random access, nothing stored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hydramix/options.h"

namespace hydramix {

enum class Kind : uint8_t {
  kLocal,        // fixed by the phrase around it
  kLeft,         // needs a word to its left: the dogs that nina saw [are]
  kRight,        // needs a word to its right: before [she] left, anna
  kRecallLeft,   // repeats a fact that only earlier sentences state
  kRecallRight,  // states a fact that only later sentences repeat
  kRecallBoth,   // states a fact that an earlier and a later sentence state too
  kFree,         // a choice: no context determines it
};
inline constexpr int kKinds = 7;
std::string_view kind_name(Kind kind);  // "left", "recall_right"

// Positions that together allow a word to be guessed with this accuracy, whatever else is hidden.
struct Evidence {
  std::vector<int32_t> places;
  double accuracy = 1;
};

struct Word {
  int32_t id;  // in vocabulary(), which is also the id that the tokenizer gives
  Kind kind;
  std::vector<Evidence> evidence;  // alternatives
  double guess;                    // the best accuracy when no alternative is visible
};

struct Document {
  std::vector<Word> words;
  std::vector<int32_t> sentences;  // where each begins
};

struct LanguageOptions {
  int64_t seed = 1;
  int64_t shortest = 40, longest = 120;
  int64_t sorts = 2;
  int64_t facts = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of the language's documents");
    v("shortest", self.shortest, Range{20, 4096}, "minimum words of a document");
    v("longest", self.longest, Range{40, 4096}, "maximum words of a document");
    v("sorts", self.sorts, Range{1, 2},
      "sorts of facts: the colour of an object, then the city of a person; with one sort and one "
      "fact only the colour varies");
    v("facts", self.facts, Range{1, 6},
      "maximum facts of each sort in a document; with 2 or more, recall needs the key");
  }
};

enum class Split : uint8_t { kTrain, kValidation, kTest };

class Grammar;

class Language {
 public:
  explicit Language(const LanguageOptions& options = {});

  // Splits use independent random numbers. Punctuation counts as words.
  Document document(int64_t index, Split split = Split::kTrain) const;
  // Tokens in the order of their ids; see language_vocabulary().
  const std::vector<std::string>& vocabulary() const;
  // The document as prose. BERT's uncased tokenizer with this vocabulary recovers the ids.
  std::string text(const Document& document) const;
  const LanguageOptions& options() const { return options_; }

 private:
  LanguageOptions options_;
  std::shared_ptr<const Grammar> grammar_;
};

// The best expected accuracy at the masked position `at`, when masked[i] != 0 hides word i: that of
// the best completely visible alternative of its evidence, else its guess. Elimination over several
// hidden words is not counted.
double achievable(const Document& document, const std::vector<char>& masked, int64_t at);

}  // namespace hydramix
