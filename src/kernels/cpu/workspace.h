// SPDX-License-Identifier: Apache-2.0
// Memory that a kernel needs while it runs, aligned for vectors.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <new>

namespace hydramix::kernels {

// Throws where there is no memory; Highway's own function returns null.
template <typename T>
hwy::AlignedFreeUniquePtr<T[]> make_workspace(int64_t size) {
  auto memory = hwy::AllocateAligned<T>(static_cast<size_t>(size));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace hydramix::kernels
