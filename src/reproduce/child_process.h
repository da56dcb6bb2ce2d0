// SPDX-License-Identifier: Apache-2.0
// A program that runs beside this one, with its output in a file. It has a process group of its
// own, so that Ctrl-C reaches only this process, which then asks it to stop by SIGTERM. It also
// gets SIGTERM if this process dies.
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
