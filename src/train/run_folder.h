// SPDX-License-Identifier: Apache-2.0
// The folder of a training run. The run locks it. config.json holds the options and data.json the
// fingerprints of the data, so that only the same run can be continued in it. data.json also has
// the checksum of the config, "config", and its own, "crc32c" (base/json_checksum.h).
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace hydramix {

// The differences that are allowed between a run and its continuation.
struct RunRules {
  std::vector<std::string> free;  // keys that may change: "train.keep"
  // Options that earlier versions did not have, with the values that those versions implied.
  nlohmann::ordered_json older = nlohmann::ordered_json::object();
};

class RunFolder {
 public:
  // Creates the folder if necessary. Throws an Error if another process holds its lock.
  explicit RunFolder(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // check_same_run(), then writes config.json and data.json.
  void keep(const nlohmann::ordered_json& config, const RunRules& rules,
            const nlohmann::ordered_json& data) const;

 private:
  std::filesystem::path path_;
  int folder_, file_;  // both locked
};

// The options in config.json. Throws an Error if the file is damaged, or no JSON object.
nlohmann::ordered_json config_of_run(const std::filesystem::path& folder);

// The fingerprints in data.json, which must match its checksum; an empty object if the file does
// not exist.
nlohmann::ordered_json data_of_run(const std::filesystem::path& folder);

// Throws if the folder holds a run with other options, beyond those that the rules allow, or with
// other data. `data` holds fingerprints by name; only these names are compared.
void check_same_run(const std::filesystem::path& folder, const nlohmann::ordered_json& config,
                    const RunRules& rules, const nlohmann::ordered_json& data);

}  // namespace hydramix
