// SPDX-License-Identifier: Apache-2.0
// Facts, and statements and questions about them, for the GLUE tasks of the built-in language.
// Texts are words separated by blanks; to_prose() makes them readable.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"

namespace hydramix {

// The colour of an object, or the city of a person.
struct StatedFact {
  bool person;
  std::string key, value;
  bool operator==(const StatedFact&) const = default;
};

inline constexpr int64_t kWordings = 3;

// Facts with distinct keys and distinct values.
std::vector<StatedFact> distinct_facts(int64_t count, Random& random);
// The fact with a value or key that none of `known` has.
StatedFact with_other_value(StatedFact fact, const std::vector<StatedFact>& known, Random& random);
StatedFact with_other_key(StatedFact fact, const std::vector<StatedFact>& known, Random& random);

std::string statement(const StatedFact& fact, int64_t wording);  // without the full stop
// Mentions the key without the value.
std::string mention_without_value(const StatedFact& fact, Random& random);
std::string question(const StatedFact& fact, int64_t wording);

std::string to_prose(const std::string& words);

}  // namespace hydramix
