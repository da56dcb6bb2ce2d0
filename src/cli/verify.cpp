// SPDX-License-Identifier: Apache-2.0
// hydramix verify: checks files against the checksums that we recorded when they were written.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/formatted.h"
#include "base/json_checksum.h"
#include "base/json_reader.h"
#include "base/list_folder.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "data/shard_index.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/safetensors.h"
#include "hydramix/tokenizer.h"
#include "io/safetensors_header.h"
#include "io/torch_archive.h"
#include "io/zip_archive.h"
#include "models/folder_files.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kLongWork = 100'000'000;  // bytes that take long enough to show progress

struct VerifyOptions {
  std::vector<std::string> paths;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("paths", self.paths, Positional{}, Required{},
      "files, or folders of models, runs and token shards with all that is below them");
  }
};

// The checks below return whether the file has a checksum, and throw if it does not match.

Json object_in(const fs::path& path) {
  if (!fs::is_regular_file(path)) return Json::object();
  auto json = try_parse_json(read_file(path, kIndexFile));
  return json.is_object() ? json : Json::object();
}

bool has_text(const Json& object, const char* key, std::string_view text) {
  return object.contains(key) && object[key].is_string() &&
         object[key].get_ref<const std::string&>() == text;
}

// The metadata of a .safetensors file, without a look at its tensors.
safetensors::Metadata metadata_of(const fs::path& path) {
  if (!fs::is_regular_file(path)) return {};
  const std::string start = read_start(path, safetensors::kLengthBytes);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < start.size(); ++i)
    length |= std::uint64_t{static_cast<unsigned char>(start[i])} << (8 * i);
  if (start.size() < safetensors::kLengthBytes || length > safetensors::kMaxHeaderBytes) return {};
  const auto size = safetensors::kLengthBytes + static_cast<std::size_t>(length);
  const std::string header = read_start(path, size);
  if (header.size() < size) return {};
  return safetensors::parse_header(std::string_view(header).substr(safetensors::kLengthBytes),
                                   path.string())
      .metadata;
}

bool check_safetensors(const fs::path& path) {
  const auto metadata = metadata_of(path);
  const auto format = metadata.find("format");
  if (format != metadata.end() && format->second.starts_with("hydramix checkpoint")) {
    read_checkpoint(path);
    return true;
  }
  return safetensors::File::open(path).has_checksums();
}

// An object without tensors is sound too: Trainer of transformers writes training_args.bin.
bool check_torch_archive(const fs::path& path) {
  return torch_archive::File::open(path, torch_archive::Selection::kAnything).has_checksums();
}

// A model's config has a copy in the weights, a run's a checksum in data.json.
bool check_config(const fs::path& path, const Json& config) {
  const auto folder = path.parent_path(), weights = folder / "model.safetensors";
  const auto metadata = metadata_of(weights);
  if (const auto copy = metadata.find("config"); copy != metadata.end()) {
    HYDRAMIX_CHECK(is_config_of(copy->second, nlohmann::json(config)), path.string(),
                   ": differs from the copy in ", weights.string());
    return true;
  }
  if (!data_of_run(folder).contains("config")) return false;
  config_of_run(folder);
  return true;
}

bool check_tokenizer(const fs::path& path) {
  const auto folder = path.parent_path();
  const auto config = object_in(folder / "config.json");
  if (has_text(config, "format", "hydramix-model") && config.contains("tokenizer")) {
    load_model_tokenizer(folder);
    return true;
  }
  const auto data = object_in(folder / "data.json");
  if (!data.contains("tokenizer")) return false;
  const auto fingerprint = Tokenizer::load(path).fingerprint();
  HYDRAMIX_CHECK(data["tokenizer"] == fingerprint, path.string(), ": its fingerprint is ",
                 fingerprint, ", data.json has ", data["tokenizer"].dump());
  return true;
}

// The index of a finished data set, or of one in progress.
std::optional<ShardIndex> index_beside(const fs::path& path) {
  const auto folder = path.parent_path();
  if (const auto json = object_in(folder / kIndexName); json.contains("shards"))
    return ShardIndex::from_json(json, (folder / kIndexName).string());
  if (const auto json = object_in(folder / "resume.json"); json.contains("index"))
    return ShardIndex::from_json(json["index"], (folder / "resume.json").string());
  return std::nullopt;
}

bool check_shard(const fs::path& path) {
  const auto index = index_beside(path);
  if (!index) return false;
  for (const auto& shard : index->shards)
    if (shard.file == path.filename()) {
      ShardReader(path.parent_path(), shard, index->id_bytes(), index->vocabulary).verify();
      return true;
    }
  return false;
}

bool check_json_file(const fs::path& path) {
  const auto json = read_json(path, kIndexFile);
  const std::string name = path.filename();
  if (name == "config.json") return check_config(path, json);
  if (name == "tokenizer.json") return check_tokenizer(path);
  if (name == "data.json" && json.is_object()) data_of_run(path.parent_path());
  if (name == kIndexName && json.is_object() && json.contains("shards"))
    ShardIndex::from_json(json, path.string());
  return check_json_checksum(json, path.string(), "");
}

bool check_file(const fs::path& path) {
  const std::string name = path.filename(), extension = path.extension();
  if (extension == ".json") return check_json_file(path);
  if (extension == ".safetensors") return check_safetensors(path);
  if (name.starts_with("shard-") && extension == ".bin") return check_shard(path);
  const std::string start = read_start(path, safetensors::kLengthBytes + 1);
  if (extension == ".pt" || extension == ".pth" || extension == ".bin") {
    // Conversion recognises files by their contents, not their names.
    const bool brace = start.size() > safetensors::kLengthBytes && start.back() == '{';
    return brace ? check_safetensors(path) : check_torch_archive(path);
  }
  return false;
}

// Files that belong to a writer at work.
bool is_passed_over(const fs::path& path) {
  const std::string name = path.filename();
  return name.starts_with(".") || name.find(".tmp.") != std::string::npos;
}

// The files under a path in the order of their names; links to folders are not followed.
void collect_files(const fs::path& path, std::vector<fs::path>& files) {
  if (!fs::is_directory(path)) {
    files.push_back(path);
    return;
  }
  for (const auto& entry : list_folder(path))
    if (!is_passed_over(entry) && !(fs::is_symlink(entry) && fs::is_directory(entry)))
      collect_files(entry, files);
}

// The shards that the index names and the folder lacks.
std::vector<fs::path> missing_shards(const fs::path& path) {
  std::vector<fs::path> missing;
  if (path.filename() != kIndexName) return missing;
  const auto json = object_in(path);
  if (!json.contains("shards") || !json["shards"].is_array()) return missing;
  for (const auto& shard : json["shards"])
    if (shard.is_object() && shard.contains("file") && shard["file"].is_string()) {
      const auto file = path.parent_path() / shard["file"].get<std::string>();
      if (!fs::exists(file)) missing.push_back(file);
    }
  return missing;
}

class Verification {
 public:
  void check(const fs::path& path) {
    std::string damage;
    bool has_checksum = false;
    try {
      HYDRAMIX_CHECK(fs::exists(path), path.string(), ": is missing");
      has_checksum = check_file(path);
    } catch (const std::exception& error) {
      damage = error.what();
      const std::string prefix = path.string() + ": ";
      if (damage.starts_with(prefix)) damage.erase(0, prefix.size());
    }
    if (!damage.empty())
      add("damaged", damaged_, path.string() + ": " + damage);
    else if (has_checksum)
      add("ok", sound_, path.string());
    else
      add("no checksum", unknown_, path.string());
  }

  int print() const {
    std::fputs(lines_.c_str(), stdout);
    std::printf("%lld ok, %lld damaged, %lld without a checksum\n", static_cast<long long>(sound_),
                static_cast<long long>(damaged_), static_cast<long long>(unknown_));
    return damaged_ > 0 ? 1 : 0;
  }

 private:
  void add(const std::string& state, int64_t& count, const std::string& text) {
    lines_ += formatted("%-12s %s\n", state, text);
    ++count;
  }

  std::string lines_;
  int64_t sound_ = 0, damaged_ = 0, unknown_ = 0;
};

int verify(const VerifyOptions& options) {
  std::vector<fs::path> files;
  for (const auto& path : options.paths) collect_files(path, files);
  for (std::size_t i = 0, found = files.size(); i < found; ++i)
    for (auto& shard : missing_shards(files[i])) files.push_back(std::move(shard));
  const auto size_of = [](const fs::path& path) -> int64_t {
    std::error_code failure;
    const auto size = fs::file_size(path, failure);
    return failure ? 0 : static_cast<int64_t>(size);
  };
  int64_t total = 0, done = 0;
  for (const auto& file : files) total += size_of(file);
  Verification verification;
  std::optional<Progress> progress;
  if (total > kLongWork) progress.emplace("verify", total, byte_unit(total));
  for (const auto& file : files) {
    verification.check(file);
    if (progress) progress->advance_to(done += size_of(file));
  }
  progress.reset();
  return verification.print();
}

}  // namespace

Command verify_command() {
  return make_command<VerifyOptions>(
      "verify", "check files against their recorded checksums", verify,
      "Examples:\n"
      "  hydramix verify runs/hydra\n"
      "  hydramix verify data/c4 model.safetensors weights.pt\n"
      "Prints a line for each file: ok, damaged and what is wrong, or no checksum, for files of "
      "other programs and those that need none. Exits with 1 if a file is damaged. Config, "
      "tokenizer and shards are checked against the files beside them that record their "
      "checksums.");
}

}  // namespace hydramix
