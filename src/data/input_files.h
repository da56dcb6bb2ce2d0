// SPDX-License-Identifier: Apache-2.0
// The files behind the inputs of a command: files as they are named, folders as the files in them,
// at any depth, in the order of their paths.
#pragma once

#include <cstdint>
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
  std::vector<std::string> passed_over;  // files of folders whose names say nothing of their format
  int64_t bytes() const;
};

// A name ending in .json, .jsonl or .ndjson, before .gz or .zst, holds JSON lines; any other holds
// text. Of a folder only these and .txt and .text are taken, and no hidden ones.
bool holds_json_lines(const std::string& path);

// Error when an input is missing, cannot be read or is there twice, or when no file is left.
InputFiles find_input_files(const std::vector<std::string>& inputs);

}  // namespace hydramix
