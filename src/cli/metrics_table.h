// SPDX-License-Identifier: Apache-2.0
// Metrics as people read them, the same in every command: shares and correlations in percent
// ("72.48 %"), losses and errors as they are. Files hold shares of 1 (0.7248).
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace hydramix {

std::string metric_text(const std::string& name, double value);

// A line for each metric; of nested ones a heading and their lines. Lists are left out.
std::string metrics_table(const nlohmann::ordered_json& metrics, const std::string& indent = "");

}  // namespace hydramix
