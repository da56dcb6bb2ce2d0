// SPDX-License-Identifier: Apache-2.0
// The entries of a folder.
//
// In place of std::filesystem::directory_iterator: libstdc++ allocates the path of the next entry
// in a function that must not throw, so that the process is aborted where there is no memory for it
// ("terminate called without an active exception").
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace hydramix {

// Their paths, sorted, without . and .. . Throws an Error if the folder cannot be read.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

// The same; on failure nothing is returned, and `failed` says why.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder,
                                               std::error_code& failed);

}  // namespace hydramix
