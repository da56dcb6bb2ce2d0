// SPDX-License-Identifier: Apache-2.0
// Limits of a PyTorch checkpoint. The reader enforces them against hostile files, and the writer
// writes no file that the reader would refuse.
#pragma once

#include <cstddef>

namespace hydramix::torch_archive {

inline constexpr std::size_t kMaxDimensions = 64;  // PyTorch's own limit
inline constexpr std::size_t kMaxTensors = 200'000;
inline constexpr std::size_t kLongestName = 1000;  // in bytes

}  // namespace hydramix::torch_archive
