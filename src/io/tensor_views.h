// SPDX-License-Identifier: Apache-2.0
// Tensors of LibTorch over the bytes of files, and back.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hydramix/safetensors.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

// A tensor over the view's bytes, which `storage` owns and the tensor keeps alive; a copy where
// LibTorch could not use them as they lie. `path` names the file in errors.
torch::Tensor to_tensor(const std::filesystem::path& path, const safetensors::TensorView& view,
                        const std::shared_ptr<const void>& storage);

// A view of the tensor's elements, or of a row-major copy in this machine's memory; `keep` gets
// what must live as long as the view.
safetensors::TensorView to_view(const std::filesystem::path& path, const std::string& name,
                                const torch::Tensor& tensor, std::vector<torch::Tensor>& keep);

}  // namespace hydramix
