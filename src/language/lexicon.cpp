// SPDX-License-Identifier: Apache-2.0
#include "language/lexicon.h"

#include <unordered_map>
#include <unordered_set>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

const std::vector<WordClass>& classes() {
  static const std::vector<WordClass> list = {
      {"name",
       split("anna clara emma julia laura maria nina sarah "
             "adam david henry jacob oscar peter simon tom"),
       2},
      {"pronoun", split("she he"), 2},
      {"object", split("key map lamp coin ring book drum flag")},
      {"city", split("rome paris london berlin madrid vienna athens oslo")},
      {"colour", split("red blue green white black pink brown yellow")},
      {"animal",
       split(
           "dog cat horse bird bear lion duck goat dogs cats horses birds bears lions ducks goats"),
       2},
      {"be", split("is are"), 2},
      {"thing",
       split("house tree road bridge boat table chair stone "
             "houses trees roads bridges boats tables chairs stones"),
       2},
      {"adjective",
       split("big small new heavy long dirty plain cheap "
             "old empty ugly odd icy open elegant unusual"),
       2},
      {"article", split("a an"), 2},
      {"mood", split("happy glad calm proud sad angry tired afraid"), 2},
      {"quality", split("good great lovely funny bad dull awful boring"), 2},
      {"work", split("story film song play poem show")},
      {"opening", split("( [ {"), 3},
      {"closing", split(") ] }"), 3},
      {"goods", split("rice salt soap bread milk tea honey wool")},
      {"number", split("two three four")},
      {"find", split("house tree road bridge boat table chair stone")},
  };
  return list;
}

// Words that belong to no class; those from "not" on occur in the GLUE tasks only.
constexpr std::string_view kFixedWords =
    "the surely looks what colour is today visits where that saw ran because was before left "
    "found and it rained as feared bought things so . ? , : "
    "not very really now in one sees of which has how does look city visit lies place";

std::string capitalised(std::string word) {
  if (word[0] >= 'a' && word[0] <= 'z') word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

std::vector<std::string> make_vocabulary() {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  std::unordered_set<std::string> seen;
  const auto add = [&](const std::string& token) {
    if (seen.insert(token).second) tokens.push_back(token);
  };
  for (char c = '!'; c <= '~'; ++c)
    if (c < 'A' || c > 'Z') add(std::string(1, c));
  for (char c = '0'; c <= '9'; ++c) add(std::string("##") + c);
  for (char c = 'a'; c <= 'z'; ++c) add(std::string("##") + c);
  for (const auto& c : classes())
    for (const auto& word : c.words) add(word);
  for (const auto& word : split(kFixedWords)) add(word);
  return tokens;
}

}  // namespace

const WordClass& word_class(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& c : classes()) {
    if (c.name == name) return c;
    known.push_back(c.name);
  }
  throw Error(concat("language: no class of words is called '", name, "'; there are ", join(known),
                     ".", did_you_mean(name, known)));
}

const std::vector<std::string>& language_vocabulary() {
  static const std::vector<std::string> tokens = make_vocabulary();
  return tokens;
}

int32_t vocabulary_id(std::string_view token) {
  static const auto ids = [] {
    std::unordered_map<std::string, int32_t> map;
    for (const auto& known : language_vocabulary()) {
      const auto id = static_cast<int32_t>(map.size());
      map.emplace(known, id);
    }
    return map;
  }();
  const auto found = ids.find(std::string(token));
  HYDRAMIX_CHECK(found != ids.end(), "language: '", token,
                 "' is not a word of the language. Add it to src/language/lexicon.cpp.");
  return found->second;
}

std::string prose(const std::vector<int32_t>& ids) {
  static const auto names = [] {
    std::unordered_set<std::string> set;
    for (const char* proper : {"name", "city"})
      for (const auto& name : word_class(proper).words) set.insert(name);
    return set;
  }();
  std::string text;
  bool sentence_begins = true, blank = false;
  for (const int32_t id : ids) {
    const std::string& word = language_vocabulary()[static_cast<std::size_t>(id)];
    const bool opens = word == "(" || word == "[" || word == "{";
    const bool joins = !opens && word.size() == 1 &&
                       std::string_view(".,:?)]}").find(word[0]) != std::string_view::npos;
    if (blank && !joins) text += ' ';
    text += sentence_begins || names.count(word) ? capitalised(word) : word;
    sentence_begins = word == "." || word == "?";
    blank = !opens;
  }
  return text;
}

}  // namespace hydramix
