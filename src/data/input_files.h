// SPDX-License-Identifier: Apache-2.0
// Expands the inputs of a command to files: a folder means all files in it, at any depth, in the
// order of their paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hydramix {

struct InputFile {
  std::string path;
  int64_t bytes;
  bool operator==(const InputFile&) const = default;
};

struct InputFiles {
  std::vector<InputFile> files;
  // In folders: files of unknown format, and folders that hold a data set.
  std::vector<std::string> skipped;
  int64_t bytes() const;
};

// The ending of a name that says the format, before .gz, .zst or .xz: ".txt" of "a.txt.gz".
std::string format_ending(const std::string& name);

// A name ending in .json, .jsonl or .ndjson, before .gz, .zst or .xz, holds JSON lines; any other
// holds text. In a folder only these, .txt and .text are read, and no hidden files.
bool holds_json_lines(const std::string& path);

// Throws Error when an input is missing, unreadable or given twice, or when no file is left. The
// folder `out` may lie within an input; its files are not inputs.
InputFiles find_input_files(const std::vector<std::string>& inputs,
                            const std::filesystem::path& out = {});

}  // namespace hydramix
