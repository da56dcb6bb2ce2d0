// SPDX-License-Identifier: Apache-2.0
#include "data/malformed.h"

#include <numeric>
#include <vector>

#include "base/spelling.h"
#include "data/json_value.h"

namespace hydramix {

int64_t DefectCounts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

std::string DefectCounts::summary() const {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (counts_[i] > 0) parts.push_back(concat(counts_[i], " ", kCauseNames[i]));
  return concat(total(), " malformed", parts.empty() ? "" : " (" + join(parts) + ")");
}

nlohmann::ordered_json DefectCounts::to_json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < counts_.size(); ++i) json[std::string(kCauseNames[i])] = counts_[i];
  return json;
}

DefectCounts DefectCounts::from_json(const nlohmann::ordered_json& json,
                                     const std::string& origin) {
  DefectCounts counts;
  for (std::size_t i = 0; i < kCauseNames.size(); ++i)
    counts.counts_[i] = count_member(json, std::string(kCauseNames[i]).c_str(), origin);
  return counts;
}

}  // namespace hydramix
