// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object per line, written during training. A run that continues from step
// s first removes the lines of later steps, so that every step appears once.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>

namespace hydramix {

class Metrics {
 public:
  // Removes the lines of `path` with a "step" above `step`.
  Metrics(std::filesystem::path path, int64_t step);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void add(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace hydramix
