// SPDX-License-Identifier: Apache-2.0
// Memory of this process: malloc's settings, the peak, and how much is available.
#pragma once

#include <cstdint>

namespace hydramix {

// Makes malloc keep the memory that it has got from the kernel. By default it maps every large
// tensor afresh and unmaps it afterwards. A fresh page costs a fault and its zeroing, which is more
// than many operations on the tensor cost.
void keep_memory_mapped();

// Returns free memory to the kernel nevertheless. Called between measurements, so that each has its
// own peak.
void release_free_memory();

// The largest resident size since construction, above the resident size at construction; bytes.
class PeakMemory {
 public:
  PeakMemory();
  int64_t bytes() const;

 private:
  int64_t before_;
};

int64_t resident_memory();  // present size; bytes

// Memory that can be allocated without swapping or being killed; bytes.
int64_t available_memory();

}  // namespace hydramix
