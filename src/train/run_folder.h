// SPDX-License-Identifier: Apache-2.0
// The folder of a training run: its own as long as the run goes on, with what the run was asked for
// (config.json) and what it learns from (data.json), so that only the same run is continued in it.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace hydramix {

// In what a run may differ from its continuation.
struct RunRules {
  std::vector<std::string> free;  // keys that may change: "train.keep"
  // Options that runs of earlier versions had not, with the values that these runs acted by.
  nlohmann::ordered_json older = nlohmann::ordered_json::object();
};

class RunFolder {
 public:
  // Makes the folder where there is none. Error when another process is writing into it.
  explicit RunFolder(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // check_same_run(), then writes config.json and data.json.
  void keep(const nlohmann::ordered_json& config, const RunRules& rules,
            const nlohmann::ordered_json& data) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
};

// The fingerprints in data.json; an empty object where there is none.
nlohmann::ordered_json data_of_run(const std::filesystem::path& folder);

// Throws where the folder holds a run that was asked for something else, within the rules, or that
// learns from other data: fingerprints by name, of which only those given are compared.
void check_same_run(const std::filesystem::path& folder, const nlohmann::ordered_json& config,
                    const RunRules& rules, const nlohmann::ordered_json& data);

}  // namespace hydramix
