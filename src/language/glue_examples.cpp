// SPDX-License-Identifier: Apache-2.0
#include "language/glue_examples.h"

#include "language/facts.h"
#include "language/lexicon.h"

namespace hydramix {
namespace {

const std::string& any(const char* name, Random& random) {
  return random.pick(word_class(name).words);
}

// A word from one half of its class, that is, of one gender, number, article or polarity.
const std::string& word_of_half(const char* name, bool second, Random& random) {
  const auto& words = word_class(name).words;
  const auto half = static_cast<int64_t>(words.size() / 2);
  return words[static_cast<std::size_t>(random.below(half) + (second ? half : 0))];
}

std::string joined(const std::vector<std::string>& clauses) {
  std::string text;
  for (const auto& clause : clauses) text += (text.empty() ? "" : " and ") + clause;
  return text + " .";
}

std::string in_any_wording(std::vector<StatedFact> facts, Random& random) {
  random.shuffle(facts);
  std::vector<std::string> clauses;
  for (const auto& fact : facts) clauses.push_back(statement(fact, random.below(kWordings)));
  return joined(clauses);
}

// Acceptable or not: a verb against its subject, an article against its adjective, a bracket
// against its partner.
GlueExample cola(std::size_t label, bool, Random& random) {
  const bool wrong = label == 0;
  const bool half = random.chance(1, 2);
  switch (random.below(3)) {
    case 0:
      return {to_prose("the " + word_of_half("animal", half, random) + " that saw the " +
                       any("thing", random) + (half != wrong ? " are " : " is ") +
                       any("mood", random) + " ."),
              ""};
    case 1:
      return {to_prose(any("name", random) + " found " + (half != wrong ? "an " : "a ") +
                       word_of_half("adjective", half, random) + " " + any("find", random) + " ."),
              ""};
    default: {
      const auto& closing = word_class("closing").words;
      const int64_t opening = random.below(3);
      const int64_t partner = wrong ? (opening + 1 + random.below(2)) % 3 : opening;
      return {
          to_prose(any("name", random) + " saw the " + any("object", random) + " " +
                   word_class("opening").words[static_cast<std::size_t>(opening)] + " as " +
                   any("name", random) + " feared " + closing[static_cast<std::size_t>(partner)] +
                   " in " + any("city", random) + " ."),
          ""};
    }
  }
}

// Polarity, inverted by "not". Lower case and separated by blanks, as in the official files.
GlueExample sst2(std::size_t label, bool, Random& random) {
  const bool turned = random.chance(1, 2);
  const std::string claim = " was " +
                            std::string(turned                ? "not "
                                        : random.chance(1, 2) ? "very "
                                                              : "really ") +
                            word_of_half("quality", (label == 0) != turned, random) + " . ";
  const std::string work = "the " + any("adjective", random) + " " + any("work", random);
  if (random.chance(1, 2)) return {work + " that " + any("name", random) + " saw" + claim, ""};
  return {any("name", random) + " saw that " + work + claim, ""};
}

// The same facts in other words, or one of them changed. The quotes are part of the text.
GlueExample mrpc(std::size_t label, bool, Random& random) {
  const auto facts = distinct_facts(2, random);
  auto others = facts;
  if (label == 0) {
    auto& changed = others[static_cast<std::size_t>(random.below(2))];
    changed = random.chance(1, 2) ? with_other_key(changed, facts, random)
                                  : with_other_value(changed, facts, random);
  }
  const auto quoted = [&](const std::string& text) {
    return (random.chance(1, 4) ? "\"" : "") + to_prose(text);
  };
  const std::string first = quoted(in_any_wording(facts, random));
  return {first, quoted(in_any_wording(others, random))};
}

// The same question in other words, or one about another object, owner or colour.
GlueExample qqp(std::size_t label, bool, Random& random) {
  std::vector<std::string> asked = {any("colour", random), any("object", random),
                                    any("name", random)};
  const auto ask = [&] {
    const std::string what = "the " + asked[0] + " " + asked[1] + " of " + asked[2];
    const std::string wordings[] = {"where is " + what + " ?", "where lies " + what + " now ?",
                                    "in which place is " + what + " ?"};
    return to_prose(wordings[random.below(3)]);
  };
  const std::string first = ask();
  if (label == 0) {
    const int64_t part = random.below(3);
    auto& changed = asked[static_cast<std::size_t>(part)];
    const char* const classes[] = {"colour", "object", "name"};
    const std::string before = changed;
    while (changed == before) changed = any(classes[part], random);
  }
  return {first, ask()};
}

// The score is the number of shared parts among five: who, what colour, what, what else, where.
GlueExample stsb(std::size_t label, bool, Random& random) {
  const char* const classes[] = {"name", "colour", "object", "find", "city"};
  std::vector<std::string> parts;
  for (const char* name : classes) parts.push_back(any(name, random));
  const auto tell = [&] {
    const std::string things[] = {"the " + parts[1] + " " + parts[2], "a " + parts[3]};
    const auto first = random.below(2);
    const std::string found = parts[0] + " found " + things[first] + " and " + things[1 - first];
    return to_prose(random.chance(1, 2) ? found + " in " + parts[4] + " ."
                                        : "in " + parts[4] + " " + found + " .");
  };
  const std::string first = tell();
  std::vector<std::size_t> order = {0, 1, 2, 3, 4};
  random.shuffle(order);
  for (std::size_t i = label; i < order.size(); ++i) {
    const std::string before = parts[order[i]];
    while (parts[order[i]] == before) parts[order[i]] = any(classes[order[i]], random);
  }
  return {first, tell()};
}

enum class Relation { kEntailed, kUnknown, kContradicted };

// Three facts, and a statement that they entail, contradict or leave open. A wrong value, or the
// value of an unknown key, is one of the three in half of the cases.
GlueExample inference(Relation relation, bool shifted, Random& random) {
  std::vector<StatedFact> facts = distinct_facts(1, random);
  StatedFact claim = facts[0];
  for (int64_t i = 0; i < 2; ++i)
    facts.push_back(with_other_value(with_other_key(claim, facts, random), facts, random));
  const StatedFact& other = facts[1];
  if (relation == Relation::kContradicted) {
    claim.value = other.value;
    if (random.chance(1, 2)) claim = with_other_value(claim, facts, random);
  } else if (relation == Relation::kUnknown) {
    claim = with_other_key(claim, facts, random);
    if (random.chance(1, 2)) claim = with_other_value(claim, facts, random);
  }
  random.shuffle(facts);
  std::vector<std::string> clauses;
  // Mismatched sets swap the wordings: facts use the one that only hypotheses have in training.
  for (const auto& fact : facts) clauses.push_back(statement(fact, shifted ? 2 : random.below(2)));
  return {to_prose(joined(clauses)),
          to_prose(statement(claim, shifted ? random.below(2) : random.below(kWordings)) + " .")};
}

GlueExample mnli(std::size_t label, bool shifted, Random& random) {
  constexpr Relation kRelations[] = {Relation::kEntailed, Relation::kUnknown,
                                     Relation::kContradicted};
  return inference(kRelations[label], shifted, random);
}

GlueExample rte(std::size_t label, bool shifted, Random& random) {
  if (label == 0) return inference(Relation::kEntailed, shifted, random);
  return inference(random.chance(1, 2) ? Relation::kUnknown : Relation::kContradicted, shifted,
                   random);
}

// A sentence states one fact and mentions another key. The question is about the fact, the other
// key, or neither.
GlueExample qnli(std::size_t label, bool, Random& random) {
  auto facts = distinct_facts(1, random);
  facts.push_back(with_other_value(with_other_key(facts[0], facts, random), facts, random));
  std::vector<std::string> clauses = {statement(facts[0], random.below(kWordings)),
                                      mention_without_value(facts[1], random)};
  random.shuffle(clauses);
  StatedFact asked = facts[label == 0 ? 0 : 1];
  if (label == 1 && random.chance(1, 2)) asked = with_other_key(asked, facts, random);
  return {to_prose(question(asked, random.below(kWordings))), to_prose(joined(clauses))};
}

}  // namespace

const std::vector<GlueTask>& glue_task_list() {
  static const std::vector<GlueTask> list = {
      {"MNLI", {"entailment", "neutral", "contradiction"}, mnli},
      {"QNLI", {"entailment", "not_entailment"}, qnli},
      {"QQP", {"0", "1"}, qqp},
      {"RTE", {"entailment", "not_entailment"}, rte},
      {"SST-2", {"0", "1"}, sst2},
      {"MRPC", {"0", "1"}, mrpc},
      {"CoLA", {"0", "1"}, cola},
      {"STS-B", {"0.000", "1.000", "2.000", "3.000", "4.000", "5.000"}, stsb},
  };
  return list;
}

}  // namespace hydramix
