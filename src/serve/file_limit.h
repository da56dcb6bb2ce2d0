// SPDX-License-Identifier: Apache-2.0
// Room for many connections: each needs a file descriptor.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

namespace hydramix::serve {

// Raises the limit on open files to what so many connections need, at most to the hard limit.
inline void raise_file_limit(int64_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = std::min<rlim_t>(static_cast<rlim_t>(connections + 256), limit.rlim_max);
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace hydramix::serve
