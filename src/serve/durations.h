// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace hydramix::serve {

inline std::chrono::steady_clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

}  // namespace hydramix::serve
