// SPDX-License-Identifier: Apache-2.0
// Checks of the file that a command writes, before its work.
#pragma once

#include <filesystem>
#include <vector>

namespace hydramix {

// UsageError where a file to write is one of the inputs, also under another name, through a link or
// as stdin ("-"): the input would be lost. `option` names the output: "--out".
void check_not_an_input(const char* option, const std::filesystem::path& out,
                        const std::vector<std::filesystem::path>& inputs);

// The files that a command may read from the folder of a model or of a run: inputs for
// check_not_an_input().
std::vector<std::filesystem::path> model_files(const std::filesystem::path& folder);

// UsageError unless OUT is a new name, an empty folder, or with `overwrite` any folder.
void check_new_folder(const char* command, const std::filesystem::path& out, bool overwrite);

// Error where the file cannot be created. An existing file stays unchanged.
void check_can_be_written(const std::filesystem::path& out);

}  // namespace hydramix
