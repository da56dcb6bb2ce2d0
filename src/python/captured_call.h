// SPDX-License-Identifier: Apache-2.0
// Calls of a block on a GPU as CUDA graphs, for torch.compile(mode="reduce-overhead"): less time of
// the host for more memory. PyTorch cannot capture these operators itself, because a tape is more
// than tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/module_pool.h"
#include "python/tape.h"

namespace hydramix {

// The tape of a call that was replayed, or null if the caller must record it. The second call in a
// row with the same weights and sizes is captured, forward and backward, if its work is the same
// every time. Another one is captured while the results of a replay are in use, four at most.
std::unique_ptr<const Tape> replayed_call(const std::string& spec, const ModuleCall& call,
                                          at::TensorList weights,
                                          const std::vector<int64_t>& wanted);

// Frees captured calls whose weights have been freed or moved.
void release_captured_calls();

// How many calls are captured; each holds the memory of a forward and a backward pass.
int64_t captured_calls();

}  // namespace hydramix
