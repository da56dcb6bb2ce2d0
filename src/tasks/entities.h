// SPDX-License-Identifier: Apache-2.0
// Named entities from tags, and their exact-match scores, as conlleval and seqeval (its default
// mode) define them. Tags are O, or a prefix and a type: B-PER begins an entity, I-PER continues
// it; E- ends one and S- is a whole one. An I- that continues nothing begins an entity.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hydramix {

struct Entity {
  std::string type;
  int64_t begin, end;  // words [begin, end)
  bool operator==(const Entity&) const = default;
};

// Whether a tag is O or has one of these prefixes. Others ("NOUN") mark no entities.
bool is_entity_tag(const std::string& tag);

std::vector<Entity> entities(std::span<const std::string> tags);

// Counts over all sentences.
struct EntityCounts {
  double right = 0, predicted = 0, actual = 0;
  void add(std::span<const std::string> predicted_tags, std::span<const std::string> actual_tags);
  // 0 where undefined.
  double precision() const { return predicted > 0 ? right / predicted : 0; }
  double recall() const { return actual > 0 ? right / actual : 0; }
  double f1() const { return predicted + actual > 0 ? 2 * right / (predicted + actual) : 0; }
};

}  // namespace hydramix
