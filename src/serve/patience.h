// SPDX-License-Identifier: Apache-2.0
// For steps that a server cannot do without, such as accepting connections and hearing signals.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace hydramix::serve {

inline constexpr auto kMemoryPause = std::chrono::milliseconds(50);

// Calls `start`, again and again while there is no memory for it.
template <class Start>
void start_with_patience(const Start& start) {
  while (true) {
    try {
      start();
      return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kMemoryPause);
    }
  }
}

}  // namespace hydramix::serve
