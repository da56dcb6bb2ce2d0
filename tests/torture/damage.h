// SPDX-License-Identifier: Apache-2.0
// Damages a file that the command wrote.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace torture {

struct Damage {
  std::string what;  // "model/model.safetensors: byte 12 is 3, was 2"
  std::filesystem::path file;
  std::filesystem::path verify;  // for hydramix verify
  std::vector<std::string> use;  // a command that reads the file
  bool is_harmless = false;      // the contents mean the same: white space of a JSON file
};

// Copies a fixture to the folder, and damages one of its files.
Damage damage_a_file(const std::filesystem::path& fixtures, const std::filesystem::path& folder,
                     std::mt19937& random);

}  // namespace torture
