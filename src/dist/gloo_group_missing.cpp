// SPDX-License-Identifier: Apache-2.0
// Replaces gloo_group.cpp where Gloo's headers are missing.
#include "dist/process_group.h"
#include "hydramix/error.h"

namespace hydramix {

void check_gloo_available() {
  throw Error(
      "several ranks on CPUs need Gloo, whose headers were missing when HydraMix was built. "
      "Install libgloo-dev (or give CMake HYDRAMIX_DEPS with include/gloo) and build again, or run "
      "alone.");
}

std::unique_ptr<ProcessGroup> make_gloo_group(const GroupOptions&) {
  check_gloo_available();
  return nullptr;
}

}  // namespace hydramix
