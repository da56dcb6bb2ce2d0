// SPDX-License-Identifier: Apache-2.0
// Tensors from and to files: .safetensors (the checked format is in safetensors.h) and the .pt
// files of PyTorch.
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
  // What load_checkpoint() chose, renamed or left out, in sentences for the user.
  std::vector<std::string> notes = {};

  bool has(const std::string& name) const { return tensors.count(name) != 0; }
  // Throws, naming the file and the nearest name.
  const torch::Tensor& at(const std::string& name) const;
};

// Zero-copy: the tensors view the mapped file, which lives as long as they do. Writing into one
// changes private memory, never the file.
TensorFile load_tensors(const std::filesystem::path& path);

// The same from a .safetensors file, from what torch.save wrote (since PyTorch 1.6) or from a model
// folder that holds one of them, told apart by their contents. Nothing that a pickle says is run.
// Of a training state only the model's weights are taken, without prefixes like "module." that all
// names share.
TensorFile load_checkpoint(const std::filesystem::path& path);

void save_tensors(const std::filesystem::path& path,
                  const std::map<std::string, torch::Tensor>& tensors,
                  const safetensors::Metadata& metadata = {});

// A .pt file, for torch.load(path, weights_only=True) in Python.
void save_torch_archive(const std::filesystem::path& path,
                        const std::map<std::string, torch::Tensor>& tensors,
                        const safetensors::Metadata& metadata = {});

}  // namespace hydramix
