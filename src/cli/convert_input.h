// SPDX-License-Identifier: Apache-2.0
// The input of hydramix convert: weights, and the options and tokenizer that belong to them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/tokenizer.h"
#include "io/stored_weights.h"

namespace hydramix {

struct ConvertInput {
  StoredWeights weights;
  std::string config;                  // of the model; empty if it came without one of ours
  std::optional<Tokenizer> tokenizer;  // if it came with one
  std::string tokenizer_text;          // its tokenizer.json
  std::vector<std::filesystem::path> other_files;  // of the folder
};

// A file of weights, or the folder of a model or of a run, of which `which` weights are taken.
ConvertInput open_convert_input(const std::filesystem::path& path, const std::string& which,
                                torch_archive::Selection selection);

// The metadata of a file with these weights. Config and tokenizer.json are texts in it, from which
// a folder can be made again.
safetensors::Metadata file_metadata(const ConvertInput& input);

void copy_other_files(const ConvertInput& input, const std::filesystem::path& folder);

}  // namespace hydramix
