// SPDX-License-Identifier: Apache-2.0
// The Python files of an exported folder, which the build compiles in: the program needs no folder
// at run time.
#pragma once

#include <map>
#include <string>

namespace hydramix {

// The files by name: "modeling_hydramix.py".
const std::map<std::string, std::string>& python_files();

// The commit that this program was configured at; empty in a build from an archive.
std::string build_commit();

}  // namespace hydramix
