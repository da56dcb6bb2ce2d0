// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace hydramix {

// UsageError where a file to write is one of the inputs, also under another name or through a link:
// the input would be lost. `option` names the output: "--out".
void check_not_an_input(const char* option, const std::filesystem::path& out,
                        const std::vector<std::filesystem::path>& inputs);

}  // namespace hydramix
