// SPDX-License-Identifier: Apache-2.0
// Weights of a model by their published names, out and in.
#pragma once

#include <map>
#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Every parameter under the name that the published checkpoints give it. The tensors are the
// model's own.
std::map<std::string, torch::Tensor> named_weights(const torch::nn::Module& model);

// Whether weight decay applies to a parameter of this name: to matrices that multiply, not to
// norms, biases, decay rates, steps, diagonals, initial states, or embeddings of places and types.
bool decays(const std::string& name, const torch::Tensor& parameter);

struct LoadOptions {
  // The published data-independent Toeplitz mixer is one lag off (docs/math.md): turn its weights
  // so that they give here what they gave there.
  bool reference_toeplitz = false;
};

// Copies `weights` into the model. All names must be there and no others, every shape must fit and
// every value be finite: all is checked before anything is changed, and the faults are listed.
void load_weights(torch::nn::Module& model, const std::map<std::string, torch::Tensor>& weights,
                  const LoadOptions& options = {});

// conv_params (H, 2 P - 1) of the published toeplitz mixer -> ours: ours[m] = theirs[(m + 1) mod (2
// P - 1)].
torch::Tensor from_reference_toeplitz_weights(const torch::Tensor& theirs);
// And back.
torch::Tensor to_reference_toeplitz_weights(const torch::Tensor& ours);
// Whether load_weights() turns the weight of this name.
bool is_turned(const std::string& name, const LoadOptions& options);

}  // namespace hydramix
