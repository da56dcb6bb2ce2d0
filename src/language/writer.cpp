// SPDX-License-Identifier: Apache-2.0
#include "language/writer.h"

#include <algorithm>
#include <numeric>

namespace hydramix {
namespace {

std::size_t as_size(int64_t i) { return static_cast<std::size_t>(i); }

bool is_goods(const Pattern::Place& place) { return place.slot.starts_with("GOODS"); }

int64_t count_goods(const Pattern& pattern) {
  return std::count_if(pattern.places.begin(), pattern.places.end(), is_goods);
}

// The positions of a fact's key and value.
std::array<std::size_t, 2> slots_of_fact(const Pattern& pattern) {
  std::array<std::size_t, 2> slots{};
  std::size_t found = 0;
  for (std::size_t i = 0; i < pattern.places.size(); ++i)
    if (!pattern.places[i].slot.empty()) slots[found++] = i;
  return slots;
}

}  // namespace

Document Writer::write() {
  const int64_t target =
      options_.shortest + random_.below(options_.longest - options_.shortest + 1);
  plan_facts(target / 2);
  plan_others(target);
  random_.shuffle(sentences_);
  for (const auto& [pattern, fact] : sentences_)
    append(*pattern, fact < 0 ? fill(*pattern) : state(*pattern, facts_[as_size(fact)]));
  add_fact_evidence();
  return std::move(document_);
}

int64_t Writer::planned_words() const {
  int64_t words = 0;
  for (const auto& sentence : sentences_)
    words += static_cast<int64_t>(sentence.pattern->places.size());
  return words;
}

// Keys and values of a sort are distinct, so that each determines the other. A fifth of the facts
// is stated only once, so that an unmatched word need not belong to a hidden one. The others are
// stated two, three or four times, or up to seven times if there is no other.
void Writer::plan_facts(int64_t words) {
  auto sorts = grammar_.fact_patterns();
  sorts.resize(as_size(options_.sorts));
  const int64_t most = single_fact() ? 7 : 4;
  std::vector<std::array<Choice, 2>> unused(sorts.size());
  for (std::size_t sort = 0; sort < sorts.size(); ++sort) {
    const Pattern& pattern = grammar_.patterns()[as_size(sorts[sort][0])];
    for (const std::size_t side : {0u, 1u}) {
      unused[sort][side].resize(pattern.places[slots_of_fact(pattern)[side]].words.size());
      std::iota(unused[sort][side].begin(), unused[sort][side].end(), std::size_t{0});
      // A single fact always has the same key, so that there is one word to recall.
      if (side == 1 || !single_fact()) random_.shuffle(unused[sort][side]);
      unused[sort][side].resize(as_size(options_.facts));
    }
  }
  while (planned_words() < words) {
    const auto sort = as_size(random_.below(static_cast<int64_t>(sorts.size())));
    auto& [keys, values] = unused[sort];
    if (keys.empty()) {
      if (std::all_of(unused.begin(), unused.end(), [](const auto& u) { return u[0].empty(); }))
        return;
      continue;
    }
    facts_.push_back({sort, keys.back(), values.back()});
    keys.pop_back();
    values.pop_back();
    const int64_t times = random_.chance(1, 5) ? 1 : 2 + random_.below(most - 1);
    for (int64_t i = 0; i < times && (i == 0 || planned_words() < words); ++i)
      sentences_.push_back({&grammar_.patterns()[as_size(random_.pick(sorts[sort]))],
                            static_cast<int64_t>(facts_.size()) - 1});
  }
}

// Stops before the sentence that would exceed the target, if the document is long enough.
void Writer::plan_others(int64_t target) {
  while (true) {
    const int64_t words = planned_words();
    const Pattern& pattern = other_pattern();
    const int64_t longer = words + static_cast<int64_t>(pattern.places.size());
    if (longer > target && words >= options_.shortest) return;
    if (longer <= options_.longest) sentences_.push_back({&pattern, -1});
  }
}

const Pattern& Writer::other_pattern() {
  const auto& patterns = grammar_.patterns();
  const auto add = [](int64_t sum, const Pattern& pattern) { return sum + pattern.weight; };
  int64_t left = random_.below(std::accumulate(patterns.begin(), patterns.end(), int64_t{0}, add));
  std::size_t i = 0;
  while (left >= patterns[i].weight) left -= patterns[i++].weight;
  return patterns[i];
}

Writer::Choice Writer::fill(const Pattern& pattern) {
  Choice choice(pattern.places.size()), goods;
  for (std::size_t i = 0; i < pattern.places.size(); ++i) {
    const auto& place = pattern.places[i];
    const auto size = static_cast<int64_t>(place.words.size());
    if (place.linked >= 0 && as_size(place.linked) < i) {
      const auto& other = pattern.places[as_size(place.linked)];
      const std::size_t group =
          choice[as_size(place.linked)] / (other.words.size() / as_size(other.groups));
      const int64_t group_size = size / place.groups;
      choice[i] = group * as_size(group_size) + as_size(random_.below(group_size));
    } else {
      // A list of goods has no duplicates.
      do {
        choice[i] = as_size(random_.below(size));
      } while (is_goods(place) && std::find(goods.begin(), goods.end(), choice[i]) != goods.end());
      if (is_goods(place)) goods.push_back(choice[i]);
    }
  }
  return choice;
}

Writer::Choice Writer::state(const Pattern& pattern, Fact& fact) const {
  const auto [key, value] = slots_of_fact(pattern);
  Choice choice(pattern.places.size());
  choice[key] = fact.key;
  choice[value] = fact.value;
  const auto begin = static_cast<int32_t>(document_.words.size());
  fact.mentions.push_back({begin + static_cast<int32_t>(key), begin + static_cast<int32_t>(value)});
  return choice;
}

// Appends the words of a sentence, each with its evidence inside the sentence.
void Writer::append(const Pattern& pattern, const Choice& choice) {
  const auto begin = static_cast<int32_t>(document_.words.size());
  const int64_t goods = count_goods(pattern);
  document_.sentences.push_back(begin);
  for (std::size_t i = 0; i < pattern.places.size(); ++i) {
    const auto& place = pattern.places[i];
    const auto size = static_cast<double>(place.words.size());
    Word word{place.words[choice[i]], Kind::kFree, {}, 1 / size};
    for (const auto& places : place.determined_by) {
      word.evidence.emplace_back();
      for (const int64_t p : places)
        word.evidence.back().places.push_back(begin + static_cast<int32_t>(p));
    }
    if (place.is_count) {
      word.kind = Kind::kRight;
      word.guess = 1.0 / 3;
    } else if (place.slot.empty()) {
      word.kind = Kind::kLocal;
      word.guess = grammar_.blind_guess();
    } else if (place.linked >= 0) {
      const double accuracy = static_cast<double>(place.groups) / size;
      word.evidence.push_back({{begin + static_cast<int32_t>(place.linked)}, accuracy});
      if (accuracy == 1) word.kind = as_size(place.linked) < i ? Kind::kLeft : Kind::kRight;
    } else if (is_goods(place)) {
      word.guess = 1 / (size - static_cast<double>(goods - 1));
    }
    document_.words.push_back(std::move(word));
  }
}

// Mentions of the same fact are evidence for each other. Without them, the words of the other facts
// can still be ruled out.
void Writer::add_fact_evidence() {
  for (const auto& fact : facts_) {
    const auto same_sort = std::count_if(facts_.begin(), facts_.end(),
                                         [&](const Fact& f) { return f.sort == fact.sort; });
    for (const auto& mention : fact.mentions) {
      for (const std::size_t side : {0u, 1u}) {
        Word& word = document_.words[as_size(mention[side])];
        if (side == 0 && single_fact()) {
          word.kind = Kind::kLocal;
          word.guess = 1;
          continue;
        }
        word.guess = 1 / (1 / word.guess - static_cast<double>(same_sort - 1));
        const bool earlier = fact.mentions.front() != mention;
        const bool later = fact.mentions.back() != mention;
        if (earlier || later)
          word.kind = !later ? Kind::kRecallLeft : earlier ? Kind::kRecallBoth : Kind::kRecallRight;
        for (const auto& other : fact.mentions) {
          if (other == mention) continue;
          // The only fact of its sort needs no key.
          if (options_.facts == 1)
            word.evidence.push_back({{other[side]}, 1});
          else
            word.evidence.push_back({{mention[1 - side], other[0], other[1]}, 1});
        }
      }
    }
  }
}

}  // namespace hydramix
