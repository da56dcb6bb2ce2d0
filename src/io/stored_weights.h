// SPDX-License-Identifier: Apache-2.0
// Weights from any file or folder that holds them, told apart by contents, not by name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hydramix/safetensors.h"
#include "io/torch_archive.h"

namespace hydramix {

struct StoredWeights {
  std::filesystem::path path;  // the file that was read
  std::vector<safetensors::TensorView> tensors;
  safetensors::Metadata metadata;
  std::vector<std::string> notes;       // what was chosen, renamed or left out
  std::shared_ptr<const void> storage;  // keeps the tensors' bytes alive
};

// `selection` matters for PyTorch's files only: the others hold nothing but weights.
StoredWeights open_weights(const std::filesystem::path& path,
                           torch_archive::Selection selection = torch_archive::Selection::kWeights);

}  // namespace hydramix
