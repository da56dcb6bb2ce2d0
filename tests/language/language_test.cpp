// SPDX-License-Identifier: Apache-2.0
// The generator's claims, checked against its documents: evidence determines its word, and the
// other side of a document is uninformative.
#include "language/language.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "hydramix/error.h"
#include "language/lexicon.h"
#include "support/expect.h"

namespace hydramix {
namespace {

constexpr int64_t kDocuments = 3000;

const Language& language() {
  static const Language instance;
  return instance;
}

const std::vector<Document>& documents() {
  static const auto list = [] {
    std::vector<Document> made;
    for (int64_t i = 0; i < kDocuments; ++i) made.push_back(language().document(i));
    return made;
  }();
  return list;
}

const std::string& text_of(int32_t id) {
  return language().vocabulary()[static_cast<std::size_t>(id)];
}

std::vector<int32_t> ids_of(const Document& document) {
  std::vector<int32_t> ids;
  for (const auto& word : document.words) ids.push_back(word.id);
  return ids;
}

bool in_class(const std::string& name, const std::string& word) {
  const auto& words = word_class(name).words;
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST(Language, ADocumentIsAFunctionOfSeedSplitAndNumber) {
  const Language again;
  for (const int64_t i : {7, 0, 2999, 7}) {
    const Document document = again.document(i);
    const Document& first = documents()[static_cast<std::size_t>(i)];
    ASSERT_EQ(ids_of(document), ids_of(first));
    for (std::size_t w = 0; w < document.words.size(); ++w) {
      EXPECT_EQ(document.words[w].kind, first.words[w].kind);
      EXPECT_EQ(document.words[w].guess, first.words[w].guess);
    }
  }
  EXPECT_NE(ids_of(Language({.seed = 2}).document(0)), ids_of(documents()[0]));
}

TEST(Language, SplitsAndNumbersShareNoDocument) {
  std::set<std::vector<int32_t>> seen;
  for (const auto& document : documents()) EXPECT_TRUE(seen.insert(ids_of(document)).second);
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(seen.insert(ids_of(language().document(i, Split::kValidation))).second);
    EXPECT_TRUE(seen.insert(ids_of(language().document(i, Split::kTest))).second);
  }
}

TEST(Language, DocumentsHaveTheRequestedLengths) {
  for (const auto& [shortest, longest] :
       {std::pair<std::size_t, std::size_t>{20, 40}, {40, 120}, {100, 120}, {500, 600}}) {
    const Language other({.seed = 3,
                          .shortest = static_cast<int64_t>(shortest),
                          .longest = static_cast<int64_t>(longest)});
    std::size_t least = 1000, most = 0;
    for (int64_t i = 0; i < 300; ++i) {
      const std::size_t size = other.document(i).words.size();
      least = std::min(least, size);
      most = std::max(most, size);
    }
    EXPECT_GE(least, shortest);
    EXPECT_LE(most, longest);
    EXPECT_LT(least, shortest + (longest - shortest) / 2);
    EXPECT_GT(most, shortest + (longest - shortest) / 2);
  }
  EXPECT_THROW(Language({.seed = 1, .shortest = 40, .longest = 50}), UsageError);
  EXPECT_THROW(language().document(-1), Error);
}

TEST(Language, EveryKindIsFrequent) {
  std::array<double, kKinds> count{};
  for (const auto& document : documents())
    for (const auto& word : document.words)
      count[static_cast<std::size_t>(word.kind)] += 1.0 / kDocuments;
  EXPECT_GT(count[static_cast<std::size_t>(Kind::kLeft)], 2);
  EXPECT_GT(count[static_cast<std::size_t>(Kind::kRight)], 2);
  EXPECT_GT(count[static_cast<std::size_t>(Kind::kRecallLeft)], 3);
  EXPECT_EQ(count[static_cast<std::size_t>(Kind::kRecallLeft)],
            count[static_cast<std::size_t>(Kind::kRecallRight)]);
}

// Lower case with separate punctuation, as BERT splits text into words.
TEST(Language, SplittingTheTextGivesTheWords) {
  for (const auto& document : documents()) {
    std::vector<std::string> words;
    bool open = false;
    for (const char c : language().text(document)) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == ' ' || std::ispunct(byte)) {
        open = false;
        if (c != ' ') words.emplace_back(1, c);
      } else {
        if (!open) words.emplace_back();
        open = true;
        words.back() += static_cast<char>(std::tolower(byte));
      }
    }
    std::vector<int32_t> ids;
    for (const auto& word : words) ids.push_back(vocabulary_id(word));
    ASSERT_EQ(ids, ids_of(document)) << language().text(document);
  }
}

// The evidence stands on the side that the kind names.
TEST(Language, KindsNameTheSideOfTheEvidence) {
  for (const auto& document : documents()) {
    for (std::size_t i = 0; i < document.words.size(); ++i) {
      const Word& word = document.words[i];
      bool determined = false, by_left = false, by_right = false;
      for (const auto& evidence : word.evidence) {
        if (evidence.accuracy < 1) continue;
        determined = true;
        const auto here = static_cast<int32_t>(i);
        const auto left = std::count_if(evidence.places.begin(), evidence.places.end(),
                                        [&](int32_t place) { return place < here; });
        by_left |= left == static_cast<int64_t>(evidence.places.size());
        by_right |= left == 0;
        EXPECT_EQ(std::count(evidence.places.begin(), evidence.places.end(), here), 0);
      }
      switch (word.kind) {
        case Kind::kFree:
          EXPECT_FALSE(determined);
          break;
        case Kind::kLocal:
          EXPECT_TRUE(determined);
          break;
        case Kind::kLeft:
          EXPECT_TRUE(by_left && !by_right);
          break;
        case Kind::kRight:
          EXPECT_TRUE(by_right && !by_left);
          break;
        // The key may stand on either side of its value; the other mention stands on the named
        // side.
        case Kind::kRecallLeft:
          EXPECT_FALSE(by_right);
          break;
        case Kind::kRecallRight:
          EXPECT_FALSE(by_left);
          break;
        case Kind::kRecallBoth:
          EXPECT_GE(word.evidence.size(), 2u);
          break;
      }
      EXPECT_GT(word.guess, 0);
      EXPECT_LE(word.guess, 0.5);
    }
  }
}

// Independent rules that see only the evidence and the class of the wanted word.
std::string solve(const std::string& asked, const std::vector<std::string>& evidence) {
  static const std::set<std::string> women = {"anna",  "clara", "emma", "julia",
                                              "laura", "maria", "nina", "sarah"};
  static const std::map<std::string, std::string> brackets = {{"(", ")"}, {"[", "]"}, {"{", "}"},
                                                              {")", "("}, {"]", "["}, {"}", "{"}};
  const std::string& first = evidence[0];
  if (asked == "she" || asked == "he") return women.count(first) ? "she" : "he";
  if (asked == "is" || asked == "are") return first.back() == 's' ? "are" : "is";
  if (asked == "a" || asked == "an")
    return std::string("aeiou").find(first[0]) == std::string::npos ? "a" : "an";
  return brackets.at(first);
}

// With one fact of a sort: another mention of the word. With more: the same key elsewhere, and the
// word next to it.
std::string repeated(const std::vector<std::string>& shown) {
  if (shown.size() == 1) return shown[0];
  return shown[0] == shown[1] ? shown[2] : shown[1];
}

void expect_evidence_suffices(const std::vector<Document>& list) {
  std::map<Kind, int64_t> solved;
  for (const auto& document : list) {
    for (const auto& word : document.words) {
      const bool recall = word.kind == Kind::kRecallLeft || word.kind == Kind::kRecallRight ||
                          word.kind == Kind::kRecallBoth;
      const bool counts = in_class("number", text_of(word.id));
      if (!recall && (counts || (word.kind != Kind::kLeft && word.kind != Kind::kRight))) continue;
      for (const auto& evidence : word.evidence) {
        std::vector<std::string> shown;
        for (const int32_t place : evidence.places)
          shown.push_back(text_of(document.words[static_cast<std::size_t>(place)].id));
        const std::string answer = recall ? repeated(shown) : solve(text_of(word.id), shown);
        ASSERT_EQ(answer, text_of(word.id)) << language().text(document);
        ++solved[word.kind];
      }
    }
  }
  for (const Kind kind :
       {Kind::kLeft, Kind::kRight, Kind::kRecallLeft, Kind::kRecallRight, Kind::kRecallBoth})
    EXPECT_GT(solved[kind], static_cast<int64_t>(list.size()));
}

TEST(Language, TheEvidenceAloneDeterminesTheWord) {
  expect_evidence_suffices(documents());
  const Language harder({.facts = 3});
  std::vector<Document> list;
  for (int64_t i = 0; i < 500; ++i) list.push_back(harder.document(i));
  expect_evidence_suffices(list);
}

// By brute force: wherever the evidence of a fixed word or a number occurs at the same distances,
// that word occurs too.
TEST(Language, TheEvidenceOfAFixedWordImpliesItEverywhere) {
  struct Rule {
    std::vector<std::pair<int64_t, int32_t>> seen;  // distance from the word, and what is there
    auto operator<=>(const Rule&) const = default;
  };
  std::map<Rule, int32_t> rules;
  for (const auto& document : documents()) {
    for (std::size_t i = 0; i < document.words.size(); ++i) {
      const Word& word = document.words[i];
      if (word.kind != Kind::kLocal && !in_class("number", text_of(word.id))) continue;
      for (const auto& evidence : word.evidence) {
        Rule rule;
        for (const int32_t place : evidence.places)
          rule.seen.emplace_back(place - static_cast<int64_t>(i),
                                 document.words[static_cast<std::size_t>(place)].id);
        const auto [known, added] = rules.emplace(rule, word.id);
        ASSERT_EQ(known->second, word.id);
      }
    }
  }
  EXPECT_GT(rules.size(), 100u);
  int64_t applied = 0;
  for (int64_t d = 0; d < 500; ++d) {
    const auto ids = ids_of(documents()[static_cast<std::size_t>(d)]);
    const auto size = static_cast<int64_t>(ids.size());
    for (const auto& [rule, word] : rules) {
      for (int64_t i = 0; i < size; ++i) {
        const bool fits = std::all_of(rule.seen.begin(), rule.seen.end(), [&](const auto& seen) {
          const int64_t there = i + seen.first;
          return there >= 0 && there < size && ids[static_cast<std::size_t>(there)] == seen.second;
        });
        if (!fits) continue;
        ASSERT_EQ(text_of(ids[static_cast<std::size_t>(i)]), text_of(word));
        ++applied;
      }
    }
  }
  EXPECT_GT(applied, 10000);
}

// Within a document a key has one value and a value one key.
TEST(Language, NoDocumentContradictsItself) {
  for (const auto& document : documents()) {
    std::map<int32_t, int32_t> value_of, key_of;
    for (std::size_t s = 0; s < document.sentences.size(); ++s) {
      const auto begin = static_cast<std::size_t>(document.sentences[s]);
      const std::string& opening = text_of(document.words[begin].id);
      std::size_t key = 0, value = 0;
      if (opening == "surely") key = begin + 2, value = begin + 4;
      if (opening == "what") key = begin + 4, value = begin + 6;
      if (opening == "today") key = begin + 1, value = begin + 3;
      if (opening == "where") key = begin + 2, value = begin + 4;
      if (value == 0) continue;
      const int32_t k = document.words[key].id, v = document.words[value].id;
      EXPECT_EQ(value_of.emplace(k, v).first->second, v) << language().text(document);
      EXPECT_EQ(key_of.emplace(v, k).first->second, k) << language().text(document);
    }
  }
}

// Accuracy of the majority answer, learned on even documents and tested on odd ones, given one
// feature of one side: the word at a distance, or the nearest word of the same class. `side` is -1
// for the left.
struct Reading {
  double accuracy, guess, tolerance;
};

Reading read_one_side(const std::string& word_class_name, Kind kind, int side, int feature) {
  const auto& words = word_class(word_class_name).words;
  const std::set<std::string> members(words.begin(), words.end());
  std::map<int32_t, std::map<int32_t, int64_t>> counts;
  std::map<int32_t, int32_t> majority;
  double right = 0, total = 0, guess = 0;
  for (const int64_t trying : {0, 1}) {
    for (std::size_t d = static_cast<std::size_t>(trying); d < documents().size(); d += 2) {
      const auto& all = documents()[d].words;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].kind != kind || !members.count(text_of(all[i].id))) continue;
        auto there = static_cast<int64_t>(i) + side * feature;
        const auto inside = [&] { return there >= 0 && there < static_cast<int64_t>(all.size()); };
        if (feature == 0) {
          do there += side;
          while (inside() && !members.count(text_of(all[static_cast<std::size_t>(there)].id)));
        }
        const int32_t seen = inside() ? all[static_cast<std::size_t>(there)].id : -1;
        if (trying) {
          right += majority.count(seen) && majority[seen] == all[i].id;
          guess += all[i].guess;
          total += 1;
        } else {
          ++counts[seen][all[i].id];
        }
      }
    }
    if (trying) break;
    for (const auto& [seen, answers] : counts)
      majority[seen] = std::max_element(answers.begin(), answers.end(), [](auto& a, auto& b) {
                         return a.second < b.second;
                       })->first;
  }
  guess /= total;
  return {right / total, guess, 4.5 * std::sqrt(guess * (1 - guess) / total)};
}

// 4.5 standard deviations of a binomial count: one false alarm in 10^5 readings.
TEST(Language, TheOtherSideOfADocumentIsUninformative) {
  struct Case {
    const char* word_class;
    Kind kind;
    int blind_side;
  };
  const Case cases[] = {
      {"pronoun", Kind::kRight, -1},      {"article", Kind::kRight, -1},
      {"opening", Kind::kRight, -1},      {"number", Kind::kRight, -1},
      {"pronoun", Kind::kLeft, 1},        {"be", Kind::kLeft, 1},
      {"closing", Kind::kLeft, 1},        {"object", Kind::kRecallRight, -1},
      {"city", Kind::kRecallRight, -1},   {"name", Kind::kRecallRight, -1},
      {"colour", Kind::kRecallRight, -1}, {"object", Kind::kRecallLeft, 1},
      {"city", Kind::kRecallLeft, 1},     {"name", Kind::kRecallLeft, 1},
      {"colour", Kind::kRecallLeft, 1},
  };
  for (const auto& c : cases) {
    for (int feature = 0; feature <= 10; ++feature) {
      const Reading reading = read_one_side(c.word_class, c.kind, c.blind_side, feature);
      EXPECT_LE(reading.accuracy, reading.guess + reading.tolerance)
          << c.word_class << " at distance " << feature;
    }
    // And the guess is achievable: 0 to 2 other facts rule out that many words.
    const Reading reading = read_one_side(c.word_class, c.kind, c.blind_side, 1);
    EXPECT_GE(reading.accuracy, 0.6 * reading.guess - reading.tolerance) << c.word_class;
  }
  // The same feature of the right side determines it.
  EXPECT_GT(read_one_side("pronoun", Kind::kRight, 1, 3).accuracy, 0.95);
  EXPECT_GT(read_one_side("article", Kind::kRight, 1, 1).accuracy, 0.95);
  EXPECT_GT(read_one_side("be", Kind::kLeft, -1, 4).accuracy, 0.95);
}

TEST(Language, AchievableIsTheBestVisibleEvidenceElseTheGuess) {
  for (int64_t d = 0; d < 200; ++d) {
    const Document& document = documents()[static_cast<std::size_t>(d)];
    const auto size = static_cast<int64_t>(document.words.size());
    const std::vector<char> nothing(document.words.size(), 0), everything(document.words.size(), 1);
    for (int64_t i = 0; i < size; ++i) {
      const Word& word = document.words[static_cast<std::size_t>(i)];
      const double best = achievable(document, nothing, i);
      if (word.kind == Kind::kFree)
        EXPECT_LT(best, 1);
      else
        EXPECT_EQ(best, 1);
      EXPECT_EQ(achievable(document, everything, i), word.guess);
      // With only the evidence visible the word is known; with one position of each alternative
      // hidden it is not.
      for (const auto& evidence : word.evidence) {
        auto masked = everything;
        for (const int32_t place : evidence.places) masked[static_cast<std::size_t>(place)] = 0;
        EXPECT_GE(achievable(document, masked, i), evidence.accuracy);
      }
      auto masked = nothing;
      for (const auto& evidence : word.evidence)
        masked[static_cast<std::size_t>(evidence.places.back())] = 1;
      EXPECT_EQ(achievable(document, masked, i), word.guess);
    }
  }
  EXPECT_THROW(achievable(documents()[0], {0, 1}, 0), Error);
  EXPECT_THROW(achievable(documents()[0], std::vector<char>(documents()[0].words.size()), -1),
               Error);
}

TEST(Lexicon, TheVocabularyBeginsLikeBertsAndHasNoDuplicates) {
  const auto& tokens = language_vocabulary();
  EXPECT_EQ(std::vector(tokens.begin(), tokens.begin() + 5),
            (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}));
  EXPECT_EQ(std::set(tokens.begin(), tokens.end()).size(), tokens.size());
  for (char c = 'a'; c <= 'z'; ++c) {
    EXPECT_NO_THROW(vocabulary_id(std::string(1, c)));
    EXPECT_NO_THROW(vocabulary_id(std::string("##") + c));
  }
  EXPECT_THROW(vocabulary_id("zebra"), Error);
  EXPECT_THROW(word_class("nam"), Error);
  for (const char* name : {"name", "animal", "thing", "adjective", "mood", "quality"})
    EXPECT_EQ(word_class(name).words.size() % 2, 0u) << name;
}

TEST(Language, WithOneSortAndOneFactASingleWordIsRecalled) {
  LanguageOptions options;
  options.sorts = 1;
  const Language language(options);
  std::set<int32_t> values;
  for (int64_t index = 0; index < 200; ++index) {
    const auto document = language.document(index);
    std::set<int32_t> recalled;
    for (const auto& word : document.words) {
      if (word.kind != Kind::kRecallLeft && word.kind != Kind::kRecallRight &&
          word.kind != Kind::kRecallBoth)
        continue;
      recalled.insert(word.id);
      for (const auto& evidence : word.evidence) {
        if (evidence.accuracy < 1) continue;
        for (const int32_t place : evidence.places)
          EXPECT_EQ(document.words[static_cast<std::size_t>(place)].id, word.id);
      }
    }
    EXPECT_LE(recalled.size(), 1u) << "document " << index;
    values.insert(recalled.begin(), recalled.end());
  }
  EXPECT_EQ(values.size(), 8u);  // all colours
}

}  // namespace
}  // namespace hydramix
