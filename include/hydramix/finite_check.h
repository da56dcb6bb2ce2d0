// SPDX-License-Identifier: Apache-2.0
// Weights that hold a NaN or an infinity are an error that names them, not a result full of NaN.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Throws Error, naming `who` and the weight, if a parameter of the module is not finite.
void check_weights_finite(const std::string& who, const torch::nn::Module& module);

// The same, but only when a weight was written since the last look (LibTorch counts writes), so
// that inference pays for it once. On a GPU it does not look: the answer would make every call
// wait.
class FiniteCheck {
 public:
  void operator()(const std::string& who, const torch::nn::Module& module) const;

 private:
  mutable std::atomic<uint64_t> writes_seen_ = 0;
};

}  // namespace hydramix
