// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object per line, written during training. A run that continues from step
// s first removes the lines of later steps, so that every step appears once.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace hydramix {

// Calls use(line, values) for every line of metrics.jsonl: an object with a whole number "step".
// `warn` gets a message that names the damaged lines, which are left out. The last line may be
// incomplete where a run was killed or is still writing; it is left out without a message.
void read_metrics(const std::filesystem::path& path,
                  const std::function<void(const std::string&, const nlohmann::json&)>& use,
                  const std::function<void(const std::string&)>& warn);

// The step of the last whole line; 0 without a file or line. Parses only the last line, so calling
// it often is cheap.
int64_t last_step(const std::filesystem::path& path);

class Metrics {
 public:
  // Removes the lines of `path` with a "step" above `step`; `warn` as above.
  Metrics(std::filesystem::path path, int64_t step,
          const std::function<void(const std::string&)>& warn);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void add(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace hydramix
