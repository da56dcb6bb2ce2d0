// SPDX-License-Identifier: Apache-2.0
// What a measurement needs to know of memory, and to ask of malloc.
#pragma once

#include <cstdint>

namespace hydramix::bench {

// From now on malloc keeps what it has got from the kernel. By default every large tensor is mapped
// afresh and unmapped when it dies, and a fresh page costs a fault and its zeroing, more than many
// of the operations measured here: a training or serving loop that keeps its memory does not pay.
void keep_memory_mapped();

// Gives back what is free all the same: between measurements, so that their peaks can be told
// apart.
void release_free_memory();

// The largest resident size since the object was made, above what was resident then; bytes.
class PeakMemory {
 public:
  PeakMemory();
  int64_t bytes() const;

 private:
  int64_t before_;
};

// What can still be taken without swapping or being killed; bytes.
int64_t available_memory();

}  // namespace hydramix::bench
