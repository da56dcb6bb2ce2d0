// SPDX-License-Identifier: Apache-2.0
// NCCL. Its operations run on their own stream, which waits for the current stream. We watch the
// clock and the other ranks ourselves: c10d's watchdog would end the process without naming the
// rank at fault. It is switched off unless the user has set its variable, and its timeout is longer
// than ours.
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL  // without it c10d's header is empty
#endif
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "dist/process_group.h"

namespace hydramix {

void check_nccl_available() {}

std::unique_ptr<ProcessGroup> make_nccl_group(const GroupOptions& options) {
  setenv("NCCL_ASYNC_ERROR_HANDLING", "0", 0);        // LibTorch 1.13
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", 0);  // LibTorch 2
  auto c10d_options = c10d::ProcessGroupNCCL::Options::create();
  c10d_options->timeout = 2 * options.timeout + std::chrono::minutes(1);
  return std::make_unique<GroupOf<c10d::ProcessGroupNCCL>>(
      c10::make_intrusive<c10d::ProcessGroupNCCL>(options.store, static_cast<int>(options.rank),
                                                  static_cast<int>(options.size), c10d_options));
}

}  // namespace hydramix
