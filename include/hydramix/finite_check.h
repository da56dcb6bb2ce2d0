// SPDX-License-Identifier: Apache-2.0
// Turns a NaN or an infinity in a weight into an error that names the weight.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Throws Error, naming `who` and the weight, if a parameter of the module is not finite.
void check_weights_finite(const std::string& who, const torch::nn::Module& module);

// Checks only when a weight was written since the last check (LibTorch counts writes), so that
// inference pays once. Does not check on a GPU, because it would synchronise every call.
class FiniteCheck {
 public:
  void operator()(const std::string& who, const torch::nn::Module& module) const;

 private:
  mutable std::atomic<uint64_t> writes_seen_ = 0;
};

}  // namespace hydramix
