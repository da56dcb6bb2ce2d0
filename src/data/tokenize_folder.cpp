// SPDX-License-Identifier: Apache-2.0
#include "data/tokenize_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/atomic_file.h"
#include "base/json_checksum.h"
#include "base/json_reader.h"
#include "base/list_folder.h"
#include "base/quotes.h"
#include "data/json_value.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResumeName = "resume.json";
constexpr const char* kResumeFormat = "hydramix tokenize, unfinished";

bool is_shard_name(const std::string& name) {
  return name.starts_with("shard-") && name.ends_with(".bin");
}

// Temporary files that a killed AtomicFile leaves.
bool is_temporary_name(const std::string& name) {
  const auto at = name.find(".tmp.");
  if (at == std::string::npos) return false;
  const std::string target = name.substr(0, at);
  return is_shard_name(target) || target == kIndexName || target == kResumeName;
}

template <class Predicate>
std::vector<fs::path> files_named(const fs::path& folder, Predicate is_wanted) {
  std::vector<fs::path> found;
  for (const auto& path : list_folder(folder))
    if (is_wanted(path.filename().string())) found.push_back(path);
  return found;
}

void remove_data_set(const fs::path& folder) {
  fs::remove(folder / kIndexName);  // first: from now on it is not a data set
  fs::remove(folder / kResumeName);
  for (const auto& path : files_named(folder, is_shard_name)) fs::remove(path);
}

// The value of a key, or null: the object may come from a damaged file.
nlohmann::ordered_json value_of(const nlohmann::ordered_json& object, const std::string& key) {
  return object.is_object() && object.contains(key) ? object[key] : nlohmann::ordered_json();
}

std::string plain(const nlohmann::ordered_json& value) {
  return escaped(value.is_string() ? value.get<std::string>() : json_text(value));
}

std::string as_flag(const std::string& key, const nlohmann::ordered_json& value) {
  std::string flag = "--" + key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (value.is_boolean()) return value.get<bool>() ? flag : "no " + flag;
  return flag + " " + plain(value);
}

std::string tokenizer_of(const nlohmann::ordered_json& made_with) {
  return concat("--vocab ", plain(value_of(made_with, "vocab")), " (tokenizer ",
                plain(value_of(made_with, "tokenizer")), ")");
}

std::string input_difference(const nlohmann::ordered_json& old_inputs,
                             const nlohmann::ordered_json& new_inputs) {
  if (!old_inputs.is_array()) return "inputs that it does not tell";
  const auto described = [](const nlohmann::ordered_json& inputs, std::size_t i) {
    if (i >= inputs.size()) return concat(inputs.size(), " files");
    return concat(plain(value_of(inputs[i], "file")), " of ", plain(value_of(inputs[i], "bytes")),
                  " bytes");
  };
  std::size_t i = 0;
  while (i < old_inputs.size() && i < new_inputs.size() &&
         json_text(old_inputs[i]) == json_text(new_inputs[i]))
    ++i;
  return concat("other inputs: ", described(old_inputs, i), ", now ", described(new_inputs, i));
}

}  // namespace

std::string first_difference(const nlohmann::ordered_json& old_made_with,
                             const nlohmann::ordered_json& new_made_with) {
  for (const auto& [key, value] : new_made_with.items()) {
    const auto before = value_of(old_made_with, key);
    // The file may have moved; the fingerprint identifies its contents.
    if (key == "vocab" || json_text(before) == json_text(value)) continue;
    if (key == "inputs") return input_difference(before, value);
    if (key == "tokenizer")
      return tokenizer_of(old_made_with) + ", now it is " + tokenizer_of(new_made_with);
    return concat(as_flag(key, before), ", now it is ", as_flag(key, value));
  }
  return "";
}

TokenizeFolder::TokenizeFolder(fs::path path, ShardIndex index, bool overwrite)
    : path_(std::move(path)), index_(std::move(index)) {
  HYDRAMIX_CHECK_USAGE(!fs::exists(path_) || fs::is_directory(path_), path_.string(),
                       ": is a file, expected a folder. Name a folder to write the data set to.");
  std::error_code failed;
  is_new_ = fs::create_directories(path_, failed);
  HYDRAMIX_CHECK(!failed, path_.string(), ": the folder cannot be made: ", failed.message(),
                 ". Check the path and its permissions.");
  lock();
  try {
    load(overwrite);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

TokenizeFolder::~TokenizeFolder() { close(descriptor_); }  // releases the lock

void TokenizeFolder::lock() {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  HYDRAMIX_CHECK(descriptor_ >= 0, path_.string(),
                 ": the folder cannot be opened: ", std::strerror(errno),
                 ". Check its permissions.");
  // Some network file systems cannot lock folders; continue without a lock there.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor_);
    throw Error(concat(path_.string(),
                       ": another hydramix tokenize is writing to this folder. "
                       "Wait for it, or use another folder."));
  }
}

void TokenizeFolder::load(bool overwrite) {
  const auto index_path = path_ / kIndexName, resume_path = path_ / kResumeName;
  for (const auto& path : files_named(path_, is_temporary_name)) fs::remove(path);
  if (overwrite) remove_data_set(path_);
  const bool has_index = fs::exists(index_path);
  if (!has_index && !fs::exists(resume_path)) {
    HYDRAMIX_CHECK_USAGE(files_named(path_, is_shard_name).empty(), path_.string(),
                         ": holds shards, but neither ", kIndexName, " nor ", kResumeName,
                         " that tell what they are. Use another folder, or --overwrite.");
    save(index_, position_);  // from now on the folder identifies its contents
    return;
  }

  const auto path = has_index ? index_path : resume_path;
  const std::string origin = path.string();
  const auto json = read_json(path, kIndexFile, kDamagedData);
  const auto found =
      ShardIndex::from_json(has_index ? json : member(json, "index", origin), origin);
  const std::string difference = first_difference(found.made_with, index_.made_with);
  HYDRAMIX_CHECK_USAGE(difference.empty(), path_.string(), ": holds ",
                       has_index ? "a data set" : "an unfinished data set", " made with ",
                       difference, ". Use another folder, or --overwrite to replace it.");
  index_ = found;
  for (const ShardInfo& shard : index_.shards)  // throws Error when one is damaged
    ShardReader(path_, shard, index_.id_bytes(), index_.vocabulary);
  is_complete_ = has_index;
  if (has_index) {
    fs::remove(resume_path);
    return;
  }
  const bool has_sum =
      check_json_checksum(json, origin, "The file is damaged: start again with --overwrite.");
  HYDRAMIX_CHECK(has_sum || member(json["index"], "version", origin) == 1, origin,
                 ": lacks the key '", kJsonChecksum,
                 "'. The file is damaged: start again with --overwrite.");
  const auto& position = member(json, "position", origin);
  const auto crc = [&](const char* key) {
    return static_cast<uint32_t>(count_member(position, key, origin));
  };
  position_ = {
      count_member(position, "file", origin),       count_member(position, "offset", origin),
      count_member(position, "line", origin),       crc("files_crc"),
      count_member(position, "bytes_read", origin), crc("crc")};
}

void TokenizeFolder::save(const ShardIndex& index, const TextPosition& position) const {
  nlohmann::ordered_json json = {{"format", kResumeFormat},
                                 {"position",
                                  {{"file", position.file},
                                   {"offset", position.offset},
                                   {"line", position.line},
                                   {"files_crc", position.files_crc},
                                   {"bytes_read", position.bytes_read},
                                   {"crc", position.crc}}},
                                 {"index", index.to_json()}};
  set_json_checksum(json);
  write_file(path_ / kResumeName, json_text(json, 1) + "\n");
}

void TokenizeFolder::complete() {
  fs::remove(path_ / kResumeName);
  is_complete_ = true;
}

void TokenizeFolder::abandon() {
  remove_data_set(path_);
  std::error_code ignored;  // fails when the folder holds other files
  if (is_new_) fs::remove(path_, ignored);
}

}  // namespace hydramix
