// SPDX-License-Identifier: Apache-2.0
#include "cli/output_path.h"

#include "base/atomic_file.h"
#include "base/list_folder.h"
#include "hydramix/error.h"

namespace hydramix {

void check_not_an_input(const char* option, const std::filesystem::path& out,
                        const std::vector<std::filesystem::path>& inputs) {
  std::error_code ignored;  // a path that does not exist is no other file
  for (const auto& input : inputs)
    HYDRAMIX_CHECK_USAGE(
        !std::filesystem::equivalent(out, input == "-" ? "/dev/stdin" : input, ignored), option,
        " ", out.string(), ": is the input ", input == "-" ? "stdin" : input.string(),
        ", which would be lost. Name another file to write.");
}

std::vector<std::filesystem::path> model_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& part : {folder, folder / "model"})
    for (const char* name : {"config.json", "data.json", "model.safetensors", "tokenizer.json"})
      files.push_back(part / name);
  std::error_code ignored;  // only runs have checkpoints
  for (const auto& path : list_folder(folder / "checkpoints", ignored)) files.push_back(path);
  return files;
}

void check_new_folder(const char* command, const std::filesystem::path& out, bool overwrite) {
  HYDRAMIX_CHECK_USAGE(!std::filesystem::exists(out) || std::filesystem::is_directory(out), command,
                       ": ", out.string(), " is a file, expected a folder or a new name.");
  HYDRAMIX_CHECK_USAGE(
      overwrite || !std::filesystem::exists(out) || std::filesystem::is_empty(out), command, ": ",
      out.string(),
      " is a folder with files in it. Name another, or give --overwrite to replace its model.");
}

void check_can_be_written(const std::filesystem::path& out) {
  const AtomicFile attempt(out);  // removed, since it is not committed
}

}  // namespace hydramix
