// SPDX-License-Identifier: Apache-2.0
// The files behind the inputs of a command: files as they are named, folders as the files in them,
// at any depth, in the order of their paths.
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
  // In folders: files whose names do not tell their format, folders that hold a data set.
  std::vector<std::string> passed_over;
  int64_t bytes() const;
};

// A name ending in .json, .jsonl or .ndjson, before .gz or .zst, holds JSON lines; any other holds
// text. Of a folder only these and .txt and .text are taken, and no hidden ones.
bool holds_json_lines(const std::string& path);

// Error when an input is missing, cannot be read or is there twice, or when no file is left. The
// folder `out` may lie within an input; what is written to it is no input.
InputFiles find_input_files(const std::vector<std::string>& inputs,
                            const std::filesystem::path& out = {});

}  // namespace hydramix
