// SPDX-License-Identifier: Apache-2.0
// Facts, statements of them and questions about them: what the GLUE tasks of the built-in language
// are made of. Texts are words with blanks between them; to_prose() makes them readable.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"

namespace hydramix {

// What colour an object has, or in which city someone is.
struct StatedFact {
  bool person;
  std::string key, value;
  bool operator==(const StatedFact&) const = default;
};

inline constexpr int64_t kWordings = 3;

// Facts with distinct keys and distinct values.
std::vector<StatedFact> distinct_facts(int64_t count, Random& random);
// The fact with another value or another key than all of these have.
StatedFact with_other_value(StatedFact fact, const std::vector<StatedFact>& known, Random& random);
StatedFact with_other_key(StatedFact fact, const std::vector<StatedFact>& known, Random& random);

std::string statement(const StatedFact& fact, int64_t wording);  // without the full stop
// Names the key and tells nothing of the value.
std::string irrelevance(const StatedFact& fact, Random& random);
std::string question(const StatedFact& fact, int64_t wording);

std::string to_prose(const std::string& words);

}  // namespace hydramix
