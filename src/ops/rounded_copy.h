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
  // Of which weight the copy is: its memory, and how often it had been written.
  const void* data = nullptr;
  int64_t version = 0;
  torch::Tensor copy;
  std::shared_ptr<on_cuda::LastWrite> write;  // of the copy
};

namespace on_cuda {
torch::Tensor rounded(RoundedCopy::State& state, const torch::Tensor& weight);
void set_rounded(RoundedCopy::State& state, const torch::Tensor& weight, const torch::Tensor& copy);
}  // namespace on_cuda

}  // namespace hydramix
