// SPDX-License-Identifier: Apache-2.0
// Reads and writes the weights of a model by their published names.
#pragma once

#include <map>
#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Every parameter under the name that the published checkpoints give it. The tensors share the
// model's memory.
std::map<std::string, torch::Tensor> named_weights(const torch::nn::Module& model);

// Whether weight decay applies to a parameter of this name: to matrices that multiply, not to
// norms, biases, decay rates, steps, diagonals, initial states, or embeddings of positions, types
// and the class token.
bool decays(const std::string& name, const torch::Tensor& parameter);

struct LoadOptions {
  // The published data-independent Toeplitz mixer is one lag off (docs/math.md): rotate its weights
  // so that they define the same matrix here.
  bool reference_toeplitz = false;
};

// Copies `weights` into the model. Names and shapes must match exactly, and every value must be
// finite. Everything is checked before anything changes, and the error lists all faults.
void load_weights(torch::nn::Module& model, const std::map<std::string, torch::Tensor>& weights,
                  const LoadOptions& options = {});

// conv_params (H, 2 P - 1) of the published toeplitz mixer -> ours:
//
//   ours[m] = theirs[(m + 1) mod (2 P - 1)]
torch::Tensor from_reference_toeplitz_weights(const torch::Tensor& theirs);
// The inverse.
torch::Tensor to_reference_toeplitz_weights(const torch::Tensor& ours);
// Whether load_weights() rotates the weight of this name.
bool is_rotated(const std::string& name, const LoadOptions& options);

}  // namespace hydramix
