// SPDX-License-Identifier: Apache-2.0
#include "data/input_files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/list_folder.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

bool is_one_of(const std::string& ending, std::initializer_list<const char*> known) {
  return std::find(known.begin(), known.end(), ending) != known.end();
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

InputFile checked_input(const fs::path& path) {
  std::error_code failed;
  const auto status = fs::status(path, failed);
  HYDRAMIX_CHECK(fs::exists(status), path.string(),
                 ": there is no such file or folder. Check the "
                 "path.");
  HYDRAMIX_CHECK(fs::is_regular_file(status), path.string(),
                 ": is a pipe or a device, expected a file or a folder. Save its contents to a "
                 "file first.");
  HYDRAMIX_CHECK(access(path.c_str(), R_OK) == 0, path.string(),
                 ": cannot be read. Check its permissions.");
  return {path.string(), static_cast<int64_t>(fs::file_size(path))};
}

// A data set's index.json is not JSON lines. `out` may have no shard yet.
bool is_data_set(const fs::path& folder, const fs::path& out) {
  std::error_code ignored;
  return fs::exists(folder / "shard-00000.bin") || fs::equivalent(folder, out, ignored);
}

// Links to folders are not followed: they can lead in circles.
void collect(const fs::path& folder, const fs::path& out, std::vector<fs::path>& paths) {
  for (const auto& path : list_folder(folder)) {
    if (is_hidden(path)) continue;
    if (fs::is_directory(path) && !fs::is_symlink(path) && !is_data_set(path, out))
      collect(path, out, paths);
    else
      paths.push_back(path);
  }
}

void add_folder(const fs::path& folder, const fs::path& out, InputFiles& found) {
  std::vector<fs::path> paths;
  collect(folder, out, paths);
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths)
    if (holds_json_lines(path.string()) ||
        is_one_of(format_ending(path.string()), {".txt", ".text"}))
      found.files.push_back(checked_input(path));
    else
      found.skipped.push_back(path.string());
}

}  // namespace

int64_t InputFiles::bytes() const {
  int64_t sum = 0;
  for (const InputFile& file : files) sum += file.bytes;
  return sum;
}

std::string format_ending(const std::string& name) {
  fs::path path = name;
  if (is_one_of(path.extension().string(), {".gz", ".zst", ".xz"})) path.replace_extension();
  return path.extension().string();
}

bool holds_json_lines(const std::string& path) {
  return is_one_of(format_ending(path), {".json", ".jsonl", ".ndjson"});
}

InputFiles find_input_files(const std::vector<std::string>& inputs, const fs::path& out) {
  InputFiles found;
  for (const std::string& input : inputs)
    if (fs::is_directory(input))
      add_folder(input, out, found);
    else
      found.files.push_back(checked_input(input));
  HYDRAMIX_CHECK(!found.files.empty(), inputs.empty() ? "the inputs" : inputs.front(),
                 ": no text in it. Expected files ending in .txt, .text, .json, .jsonl or .ndjson, "
                 "also packed as .gz, .zst or .xz; a file of another name must be named itself.");
  std::map<fs::path, std::string> seen;
  for (const InputFile& file : found.files) {
    const auto [first, is_new] = seen.emplace(fs::canonical(file.path), file.path);
    HYDRAMIX_CHECK(is_new, file.path, ": is there twice, also as ", first->second,
                   ". Its documents would be repeated: name each input once.");
  }
  return found;
}

}  // namespace hydramix
