// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "hydramix/rounded_copy.h"

namespace hydramix {

namespace on_cuda {
class LastWrite;
}

struct RoundedCopy::State {
  std::mutex mutex;
  // Identify the weight that was copied: its memory and its version counter.
  const void* data = nullptr;
  int64_t version = 0;
  torch::Tensor copy;
  std::shared_ptr<on_cuda::LastWrite> write;  // the last write to the copy
};

namespace on_cuda {
torch::Tensor rounded(RoundedCopy::State& state, const torch::Tensor& weight);
void set_rounded(RoundedCopy::State& state, const torch::Tensor& weight, const torch::Tensor& copy);
}  // namespace on_cuda

}  // namespace hydramix
