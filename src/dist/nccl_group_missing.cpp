// SPDX-License-Identifier: Apache-2.0
// Replaces nccl_group.cpp where LibTorch has no CUDA or NCCL's header is missing.
#include "dist/process_group.h"
#include "hydramix/error.h"

namespace hydramix {

void check_nccl_available() {
  throw Error(
      "several ranks on GPUs need NCCL, which was missing when HydraMix was built: nccl.h was not "
      "found (libnccl-dev, or the package nvidia-nccl of Python), or LibTorch has no CUDA. Install "
      "it and build again, or run alone or on CPUs.");
}

std::unique_ptr<ProcessGroup> make_nccl_group(const GroupOptions&) {
  check_nccl_available();
  return nullptr;
}

}  // namespace hydramix
