// SPDX-License-Identifier: Apache-2.0
// Command lines that no user would type, made from the options that the command itself lists.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "torture/server.h"

namespace torture {

class HostileGrammar {
 public:
  // Asks the command for its commands and their options. `folder` gets files to name.
  HostileGrammar(Server& server, const std::filesystem::path& folder);

  std::vector<std::string> line(std::mt19937& random) const;

 private:
  std::string value(std::mt19937& random) const;

  std::vector<std::string> commands_, values_;
  std::map<std::string, std::vector<std::string>> options_;  // of each command
};

}  // namespace torture
