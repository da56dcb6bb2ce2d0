// SPDX-License-Identifier: Apache-2.0
// Converts between LibTorch tensors and views of file bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hydramix/safetensors.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

// A tensor over the view's bytes, which `storage` owns and the tensor keeps alive; a copy where
// LibTorch cannot use them in place. `path` names the file in errors.
torch::Tensor to_tensor(const std::filesystem::path& path, const safetensors::TensorView& view,
                        const std::shared_ptr<const void>& storage);

// A view of the tensor's elements, or of a row-major copy on the CPU; `keep` receives what must
// outlive the view.
safetensors::TensorView to_view(const std::filesystem::path& path, const std::string& name,
                                const torch::Tensor& tensor, std::vector<torch::Tensor>& keep);

}  // namespace hydramix
