// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace hydramix {

// Adds the keys of `older`, with their values, that `config` and its sections lack. Nothing else
// changes.
inline void add_missing(nlohmann::ordered_json& config, const nlohmann::ordered_json& older) {
  if (!config.is_object()) return;
  for (const auto& [key, value] : older.items())
    if (!config.contains(key))
      config[key] = value;
    else if (value.is_object())
      add_missing(config[key], value);
}

}  // namespace hydramix
