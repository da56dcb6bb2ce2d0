// SPDX-License-Identifier: Apache-2.0
#include "language/facts.h"

#include <algorithm>
#include <sstream>

#include "language/lexicon.h"

namespace hydramix {
namespace {

const std::vector<std::string>& keys(bool person) {
  return word_class(person ? "name" : "object").words;
}
const std::vector<std::string>& values(bool person) {
  return word_class(person ? "city" : "colour").words;
}

bool mentioned(const std::vector<StatedFact>& facts, const std::string& word) {
  return std::any_of(facts.begin(), facts.end(), [&](const StatedFact& fact) {
    return fact.key == word || fact.value == word;
  });
}

}  // namespace

StatedFact with_other_value(StatedFact fact, const std::vector<StatedFact>& known, Random& random) {
  const std::string before = fact.value;
  do fact.value = random.pick(values(fact.person));
  while (fact.value == before || mentioned(known, fact.value));
  return fact;
}

StatedFact with_other_key(StatedFact fact, const std::vector<StatedFact>& known, Random& random) {
  const std::string before = fact.key;
  do fact.key = random.pick(keys(fact.person));
  while (fact.key == before || mentioned(known, fact.key));
  return fact;
}

std::vector<StatedFact> distinct_facts(int64_t count, Random& random) {
  std::vector<StatedFact> facts;
  for (int64_t i = 0; i < count; ++i) {
    const StatedFact sort{random.chance(1, 2), "", ""};
    facts.push_back(with_other_value(with_other_key(sort, facts, random), facts, random));
  }
  return facts;
}

std::string statement(const StatedFact& fact, int64_t wording) {
  const auto& [person, key, value] = fact;
  if (person) {
    if (wording == 0) return "today " + key + " visits " + value;
    if (wording == 1) return key + " is now in " + value;
    return "in " + value + " one sees " + key;
  }
  if (wording == 0) return "surely the " + key + " looks " + value;
  if (wording == 1) return "the " + key + " is " + value;
  return value + " is the colour of the " + key;
}

std::string mention_without_value(const StatedFact& fact, Random& random) {
  if (fact.person) return fact.key + " was " + random.pick(word_class("mood").words);
  return random.pick(word_class("name").words) + " saw the " + fact.key;
}

std::string question(const StatedFact& fact, int64_t wording) {
  const auto& [person, key, value] = fact;
  if (person) {
    if (wording == 0) return "where is " + key + " ?";
    if (wording == 1) return "which city does " + key + " visit ?";
    return "in which city is " + key + " ?";
  }
  if (wording == 0) return "what colour is the " + key + " ?";
  if (wording == 1) return "which colour has the " + key + " ?";
  return "how does the " + key + " look ?";
}

std::string to_prose(const std::string& words) {
  std::vector<int32_t> ids;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) ids.push_back(vocabulary_id(word));
  return prose(ids);
}

}  // namespace hydramix
