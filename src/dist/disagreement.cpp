// SPDX-License-Identifier: Apache-2.0
#include "dist/disagreement.h"

#include <algorithm>
#include <set>

#include "base/json_reader.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr std::size_t kShownKeys = 8;

// The value as an object of pointers and leaves, {"/train/rate": 0.1}; null when it is no object.
nlohmann::json leaves_of(const std::string& value) {
  const auto object = try_parse_json<nlohmann::json>(value);
  return object.is_object() ? object.flatten() : nlohmann::json();
}

}  // namespace

Disagreement::Disagreement(const std::string& value, const std::vector<std::string>& others) {
  const auto first = leaves_of(value);
  objects_ = first.is_object();
  std::set<std::string> differing;
  const auto compare = [&](const nlohmann::json& one, const nlohmann::json& other) {
    for (const auto& [key, leaf] : one.items())
      if (!other.contains(key) || other[key] != leaf) differing.insert(key);
  };
  for (const auto& text : others) {
    const auto other = leaves_of(text);
    objects_ = objects_ && other.is_object();
    if (!objects_) return;
    compare(first, other);
    compare(other, first);
  }
  keys_.assign(differing.begin(), differing.end());
}

std::string Disagreement::shown(const std::string& value) const {
  if (!objects_ || keys_.empty()) return in_quotes(value);
  const auto leaves = leaves_of(value);
  std::vector<std::string> parts;
  for (const auto& key : keys_) {
    std::string name = key.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    parts.push_back(leaves.contains(key) ? concat(name, "=", clipped(leaves[key].dump(), 100))
                                         : concat("no ", name));
    if (parts.size() == kShownKeys) break;
  }
  std::string text = join(parts);
  if (keys_.size() > kShownKeys) text += concat(" and ", keys_.size() - kShownKeys, " more");
  return text;
}

}  // namespace hydramix
