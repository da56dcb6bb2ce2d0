// SPDX-License-Identifier: Apache-2.0
// Help on commands and their options: for the terminal, 80 columns wide, and for docs/cli.md.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace hydramix {

// "mixer.d_state" -> "--mixer.d-state"; an argument: "files" -> "FILES".
std::string spelled(const Field& field);

std::string program_help(const std::vector<Command>& commands);
std::string command_help(const Command& command);
std::string command_usage(const Command& command);  // its first line and its details
std::string markdown_help(const std::vector<Command>& commands);

}  // namespace hydramix
