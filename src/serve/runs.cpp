// SPDX-License-Identifier: Apache-2.0
#include "serve/runs.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>
#include <vector>

#include "base/json_reader.h"
#include "base/list_folder.h"
#include "base/quotes.h"
#include "base/read_file.h"
#include "serve/http_error.h"

namespace hydramix::serve {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // of the file in an answer

struct Run {
  std::string name;
  fs::path metrics;
};

void add_runs(const fs::path& folder, const std::string& prefix, int levels,
              std::vector<Run>& runs) {
  std::error_code ignored;  // a folder that cannot be read has no runs
  for (const auto& path : list_folder(folder, ignored)) {
    if (!fs::is_directory(path, ignored)) continue;
    const auto name = prefix + path.filename().string();
    if (fs::is_regular_file(path / "metrics.jsonl", ignored))
      runs.push_back({name, path / "metrics.jsonl"});
    if (levels > 1) add_runs(path, name + "/", levels - 1, runs);
  }
}

std::vector<Run> runs_in(const fs::path& folder) {
  if (folder.empty()) throw not_found("the server shows no runs; start it with --runs FOLDER.");
  std::vector<Run> runs;
  std::error_code ignored;
  if (fs::is_regular_file(folder / "metrics.jsonl", ignored))
    runs.push_back(
        {fs::absolute(folder / "").parent_path().filename().string(), folder / "metrics.jsonl"});
  add_runs(folder, "", 2, runs);
  return runs;
}

// Seconds since 1970.
int64_t modified(const fs::path& path) {
  std::error_code ignored;
  const auto time = fs::last_write_time(path, ignored);
  const auto there = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(there).count();
}

}  // namespace

std::string runs_list(const fs::path& folder) {
  auto list = nlohmann::ordered_json::array();
  std::error_code ignored;
  for (const auto& run : runs_in(folder))
    list.push_back({{"name", run.name},
                    {"bytes", static_cast<int64_t>(fs::file_size(run.metrics, ignored))},
                    {"modified", modified(run.metrics)}});
  return nlohmann::ordered_json{{"runs", list}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string run_metrics(const fs::path& folder, const std::string& name, const std::string& after) {
  int64_t begin = 0;
  const auto parsed = std::from_chars(after.data(), after.data() + after.size(), begin);
  if (!after.empty() &&
      (parsed.ec != std::errc() || parsed.ptr != after.data() + after.size() || begin < 0))
    throw bad_request("'after' is ", in_quotes(clipped(after, 40)),
                      "; expected a number of bytes.");
  // Only names of the list are opened, so that a name cannot lead out of the folder.
  for (const auto& run : runs_in(folder)) {
    if (run.name != name) continue;
    // A run that restarts from an earlier step rewrites its file; it is then read from its start.
    const auto part = read_part(run.metrics, begin, kMostBytes);
    const std::string_view text = part.bytes;
    std::string lines;
    std::size_t next = 0;
    for (std::size_t end; (end = text.find('\n', next)) != std::string::npos; next = end + 1) {
      const auto line = text.substr(next, end - next);
      // A line that a crash has cut is left out.
      if (try_parse_json(line).is_object()) lines += (lines.empty() ? "" : ",") + std::string(line);
    }
    // A line that no answer can hold is left out, too; its end is no object.
    if (next == 0 && text.size() == kMostBytes) next = kMostBytes;
    return concat("{\"name\":", nlohmann::json(name).dump(), ",\"lines\":[", lines,
                  "],\"next\":", part.begin + static_cast<int64_t>(next), "}");
  }
  throw not_found("there is no run ", in_quotes(clipped(name, 80)), ". GET /runs lists them.");
}

}  // namespace hydramix::serve
