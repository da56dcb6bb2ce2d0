// SPDX-License-Identifier: Apache-2.0
// Tensors from and to .safetensors files (the checked format is in safetensors.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "hydramix/safetensors.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

struct TensorFile {
  std::filesystem::path path;
  std::map<std::string, torch::Tensor> tensors;
  safetensors::Metadata metadata;

  bool has(const std::string& name) const { return tensors.count(name) != 0; }
  // Throws, naming the file and the nearest name.
  const torch::Tensor& at(const std::string& name) const;
};

// Zero-copy: the tensors view the mapped file, which lives as long as they do. Writing into one
// changes private memory, never the file.
TensorFile load_tensors(const std::filesystem::path& path);

void save_tensors(const std::filesystem::path& path,
                  const std::map<std::string, torch::Tensor>& tensors,
                  const safetensors::Metadata& metadata = {});

}  // namespace hydramix
