// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/add_missing.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/json_checksum.h"
#include "base/json_reader.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kConfig = "config.json", *kData = "data.json";
constexpr const char* kConfigSum = "config";  // key of data.json

void write_data(const std::filesystem::path& folder, Json data) {
  set_json_checksum(data);
  write_file(folder / kData, data.dump(2) + "\n");
}

void erase(Json& config, const std::string& key) {
  const auto dot = key.find('.');
  if (!config.is_object() || !config.contains(key.substr(0, dot))) return;
  if (dot == std::string::npos)
    config.erase(key);
  else
    erase(config[key.substr(0, dot)], key.substr(dot + 1));
}

// The first key in which two configurations differ, and both values.
std::string difference(const Json& a, const Json& b, const std::string& path = "") {
  if (a == b) return "";
  if (!a.is_object() || !b.is_object()) return concat(path, " was ", a.dump(), ", is ", b.dump());
  for (const auto& [key, value] : b.items()) {
    const std::string own = path.empty() ? key : path + "." + key;
    auto found = difference(a.contains(key) ? a[key] : Json(), value, own);
    if (!found.empty()) return found;
  }
  for (const auto& [key, value] : a.items())
    if (!b.contains(key))
      return concat(path.empty() ? "" : path + ".", key, " was ", value.dump(), ", is not there");
  return "";  // the same keys in another order
}

bool is_taken(int descriptor) {
  return flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& path) : path_(path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  HYDRAMIX_CHECK(!failure, path.string(), ": cannot make this folder: ", failure.message(),
                 ". Choose another --out.");
  // The lock of a file could be lost with the file, that of a folder is not possible on every
  // network file system: both are taken. The system releases them when the process ends. A file
  // system without locks is accepted.
  folder_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  file_ = open((path / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  const int failed = errno;
  const bool opened = folder_ >= 0 && file_ >= 0;
  if (opened && !is_taken(folder_) && !is_taken(file_)) return;
  close(folder_);
  close(file_);
  HYDRAMIX_CHECK(opened, path.string(), ": cannot be opened: ", std::strerror(failed),
                 ". Check that the folder is writable.");
  throw Error(path.string() +
              ": another run is writing into this folder. Wait for it, or choose another --out.");
}

RunFolder::~RunFolder() {
  close(folder_);
  close(file_);
}

void RunFolder::keep(const Json& config, const RunRules& rules, const Json& data) const {
  check_same_run(path_, config, rules, data);
  // The old checksum goes first and the new one comes last, so that a kill in between leaves no
  // checksum of another config.
  if (std::filesystem::exists(path_ / kConfig) && std::filesystem::exists(path_ / kData))
    write_data(path_, data);
  write_file(path_ / kConfig, config.dump(2) + "\n");
  auto complete = data;
  complete[kConfigSum] = checksum_text(json_checksum(config));
  write_data(path_, complete);
}

Json config_of_run(const std::filesystem::path& folder) {
  const auto path = folder / kConfig;
  auto config = read_json(path, kConfigFile);
  HYDRAMIX_CHECK(config.is_object(), path.string(), ": is not the configuration of a run.");
  const auto data = data_of_run(folder);
  const std::string sum = checksum_text(json_checksum(config));
  HYDRAMIX_CHECK(!data.contains(kConfigSum) || data[kConfigSum] == sum, path.string(),
                 ": was changed or damaged after the run wrote it: its checksum is ", sum, ", ",
                 kData, " has ", data[kConfigSum].dump(),
                 ". Restore it; the command that began the run writes it again.");
  return config;
}

Json data_of_run(const std::filesystem::path& folder) {
  const auto path = folder / kData;
  if (!std::filesystem::exists(path)) return Json::object();
  auto data = try_parse_json(read_file(path, kConfigFile));
  HYDRAMIX_CHECK(data.is_object(), path.string(),
                 ": holds no fingerprints of data. Choose another --out.");
  const bool has_sum = check_json_checksum(
      data, path.string(), "The file was changed or damaged. Restore it, or choose another --out.");
  // Versions that write the checksum of the config write this one too.
  HYDRAMIX_CHECK(has_sum || !data.contains(kConfigSum), path.string(), ": lacks the key '",
                 kJsonChecksum,
                 "'. The file was changed or damaged. Restore it, or choose another --out.");
  data.erase(kJsonChecksum);
  return data;
}

void check_same_run(const std::filesystem::path& folder, const Json& config, const RunRules& rules,
                    const Json& data) {
  const auto config_path = folder / kConfig;
  if (std::filesystem::exists(config_path)) {
    auto before = try_parse_json(read_file(config_path, kConfigFile));
    HYDRAMIX_CHECK(before.is_object() && (before.contains("train") || before.contains("task")),
                   config_path.string(),
                   ": is not the configuration of a run. Choose another --out.");
    add_missing(before, rules.older);
    auto now = config;
    for (const auto& key : rules.free) {
      erase(before, key);
      erase(now, key);
    }
    const auto differs = difference(before, now);
    HYDRAMIX_CHECK_USAGE(differs.empty(), folder.string(),
                         ": holds a run with other options: ", differs,
                         ". Give the same options to continue it, or choose another --out.");
  }
  const auto all = data_of_run(folder);
  if (all.empty()) return;
  Json before = Json::object();
  for (const auto& [name, fingerprint] : data.items())
    if (all.contains(name)) before[name] = all[name];
  const auto differs = difference(before, data);
  HYDRAMIX_CHECK(differs.empty(), (folder / kData).string(),
                 ": the data that this run began with had other fingerprints: ", differs,
                 ". Bring it back, or choose another --out.");
}

}  // namespace hydramix
