// SPDX-License-Identifier: Apache-2.0
// Reads and writes tensors: .safetensors (safetensors.h has the format) and PyTorch's .pt files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "hydramix/safetensors.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

struct TensorFile {
  std::filesystem::path path;
  std::map<std::string, torch::Tensor> tensors;
  safetensors::Metadata metadata;
  // Sentences for the user about what load_checkpoint() chose, renamed or skipped.
  std::vector<std::string> notes = {};
  bool has_checksums = false;  // the file records them, and they match

  bool has(const std::string& name) const { return tensors.count(name) != 0; }
  // Throws Error with the file and the nearest name.
  const torch::Tensor& at(const std::string& name) const;
};

// Recorded checksums must match. Zero-copy: the tensors view the mapped file, which lives as long
// as they do. Writing into one changes private memory, never the file.
TensorFile load_tensors(const std::filesystem::path& path);

// Reads a .safetensors file, a file of torch.save (PyTorch 1.6 or later) or a model folder,
// recognised by its contents. Nothing in a pickle is run. From a training state it takes only the
// model's weights, without prefixes like "module." that all names share.
TensorFile load_checkpoint(const std::filesystem::path& path);

void save_tensors(const std::filesystem::path& path,
                  const std::map<std::string, torch::Tensor>& tensors,
                  const safetensors::Metadata& metadata = {});

// A .pt file, for torch.load(path, weights_only=True) in Python.
void save_torch_archive(const std::filesystem::path& path,
                        const std::map<std::string, torch::Tensor>& tensors,
                        const safetensors::Metadata& metadata = {});

}  // namespace hydramix
