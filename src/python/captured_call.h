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

// The tape of a call that was replayed. The second call in a row with the same weights and sizes is
// captured, forward and backward. Null where a call is not replayed, so that the caller records it:
// if it cannot be captured, at first, and while the results of earlier replays are still in use.
std::unique_ptr<const Tape> replayed_call(const std::string& spec, const ModuleCall& call,
                                          at::TensorList weights,
                                          const std::vector<int64_t>& wanted);

// How many calls are captured; each holds the memory of a forward and a backward pass.
int64_t captured_calls();

}  // namespace hydramix
