// SPDX-License-Identifier: Apache-2.0
#include "tasks/entities.h"

#include <algorithm>

namespace hydramix {
namespace {

struct Tag {
  char prefix = 'O';
  std::string type = "";
};

Tag parsed_tag(const std::string& tag) {
  if (!is_entity_tag(tag) || tag == "O") return {};
  return {tag[0], tag.substr(2)};
}

bool ends_before(const Tag& tag, const Tag& next) {
  if (tag.prefix == 'O') return false;
  return tag.prefix == 'E' || tag.prefix == 'S' || next.prefix == 'B' || next.prefix == 'S' ||
         next.prefix == 'O' || tag.type != next.type;
}

bool begins_after(const Tag& previous, const Tag& tag) {
  if (tag.prefix == 'O') return false;
  return tag.prefix == 'B' || tag.prefix == 'S' || previous.prefix == 'E' ||
         previous.prefix == 'S' || previous.prefix == 'O' || previous.type != tag.type;
}

}  // namespace

bool is_entity_tag(const std::string& tag) {
  return tag == "O" || (tag.size() > 2 && tag[1] == '-' &&
                        (tag[0] == 'B' || tag[0] == 'I' || tag[0] == 'E' || tag[0] == 'S'));
}

std::vector<Entity> entities(std::span<const std::string> tags) {
  std::vector<Entity> found;
  Tag previous;
  int64_t begin = 0;
  for (std::size_t i = 0; i <= tags.size(); ++i) {
    const Tag tag = i < tags.size() ? parsed_tag(tags[i]) : Tag{};
    const auto place = static_cast<int64_t>(i);
    if (ends_before(previous, tag)) found.push_back({previous.type, begin, place});
    if (begins_after(previous, tag)) begin = place;
    previous = tag;
  }
  return found;
}

void EntityCounts::add(std::span<const std::string> predicted_tags,
                       std::span<const std::string> actual_tags) {
  const auto said = entities(predicted_tags), is = entities(actual_tags);
  for (const auto& entity : said)
    right += std::find(is.begin(), is.end(), entity) != is.end() ? 1 : 0;
  predicted += static_cast<double>(said.size());
  actual += static_cast<double>(is.size());
}

}  // namespace hydramix
