// SPDX-License-Identifier: Apache-2.0
// Reads weights from any supported file or folder, recognised by its contents, not its name.
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
  std::vector<std::string> notes;       // what was chosen, renamed or skipped
  std::shared_ptr<const void> storage;  // keeps the tensors' bytes alive
  bool has_checksums = false;           // the file records them, and they match
};

// `selection` matters for PyTorch's files only: the others hold nothing but weights.
StoredWeights open_weights(const std::filesystem::path& path,
                           torch_archive::Selection selection = torch_archive::Selection::kWeights);

}  // namespace hydramix
