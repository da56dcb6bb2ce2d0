// SPDX-License-Identifier: Apache-2.0
// How large a call may be.
#pragma once

#include <cstdint>

namespace hydramix::cuda {

// A call takes fewer tokens, or rows: places of tokens are ints, and so are sums of two of them.
// Values are counted in int64: there may be more than 2^31 of them.
constexpr int64_t kMostTokens = int64_t{1} << 30;

}  // namespace hydramix::cuda
