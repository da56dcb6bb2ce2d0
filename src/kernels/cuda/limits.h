// SPDX-License-Identifier: Apache-2.0
// The largest size of a call.
#pragma once

#include <cstdint>

namespace hydramix::cuda {

// A call has fewer tokens (or rows) than this. Indices of tokens, and sums of two of them, are
// ints. Values are counted in int64, because there may be more than 2^31 of them.
constexpr int64_t kMostTokens = int64_t{1} << 30;

}  // namespace hydramix::cuda
