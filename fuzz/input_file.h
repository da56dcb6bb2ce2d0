// SPDX-License-Identifier: Apache-2.0
// The input of a fuzzer as a file in memory, for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace fuzz {

class InputFile {
 public:
  InputFile() : descriptor_(memfd_create("fuzz input", 0)) {
    if (descriptor_ < 0) std::abort();
  }
  // The path of a file with these bytes, until the next call.
  std::string path_of(const std::uint8_t* data, std::size_t size) {
    if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, data, size, 0) < 0) std::abort();
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace fuzz
