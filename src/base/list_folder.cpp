// SPDX-License-Identifier: Apache-2.0
#include "base/list_folder.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "hydramix/error.h"

namespace hydramix {

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder,
                                               std::error_code& failed) {
  failed.clear();
  const auto close = [](DIR* opened) { closedir(opened); };
  const std::unique_ptr<DIR, decltype(close)> directory(opendir(folder.c_str()), close);
  std::vector<std::filesystem::path> entries;
  if (directory) {
    errno = 0;  // readdir() leaves it at the end of the folder
    while (const dirent* entry = readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") entries.push_back(folder / name);
      errno = 0;
    }
  }
  if (errno != 0) {
    failed.assign(errno, std::generic_category());
    return {};
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  auto entries = list_folder(folder, failed);
  HYDRAMIX_CHECK(!failed, folder.string(), ": the folder cannot be read: ", failed.message(),
                 ". Check that it exists, and its permissions.");
  return entries;
}

}  // namespace hydramix
