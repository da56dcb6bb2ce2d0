// SPDX-License-Identifier: Apache-2.0
#include "bench/scaling_data.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_reader.h"

namespace hydramix::bench {

std::optional<double> ScalingData::slope(const std::string& mixer, const std::string& pass) const {
  const auto found = mixers.find(mixer);
  if (found == mixers.end() || found->second.count(pass) == 0) return std::nullopt;
  return log_log_slope(found->second.at(pass));
}

ScalingData parse_scaling(const std::string& text, const std::string& origin) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto conditions = parse_json<nlohmann::json>(line, origin);
  ScalingData data{conditions.at("command"), conditions.at("commit"), conditions.at("machine"), {}};
  while (std::getline(lines, line)) {
    const auto row = parse_json<nlohmann::json>(line, origin);
    data.mixers[row.at("name")][row.at("pass")].emplace_back(row.at("length"), row.at("ms"));
  }
  return data;
}

const ScalingData& measured_scaling() {
  static const ScalingData data = parse_scaling(kScalingText, "scaling.jsonl");
  return data;
}

}  // namespace hydramix::bench
