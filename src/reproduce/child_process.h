// SPDX-License-Identifier: Apache-2.0
// A child process whose output goes to a file. It has its own process group, so Ctrl-C reaches only
// the parent, which then stops it by SIGTERM. It also gets SIGTERM if the parent dies.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "reproduce/runner.h"

namespace hydramix {

struct ChildCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;                            // without the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
  std::filesystem::path log;                                     // gets stdout and stderr
};

std::unique_ptr<Job> start_child(const ChildCommand& command);

}  // namespace hydramix
