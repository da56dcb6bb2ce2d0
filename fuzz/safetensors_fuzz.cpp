// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the safetensors reader. Any input must either be refused with an Error or
// yield views that are readable throughout. Build with -fsanitize=fuzzer,address,undefined and
// start from fuzz/corpus/safetensors.
#include <cstddef>
#include <cstdint>
#include <span>

#include "hydramix/error.h"
#include "hydramix/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = hydramix::safetensors::File::parse(
        std::as_bytes(std::span<const std::uint8_t>(data, size)), "fuzz input");
    unsigned sum = 0;
    for (const auto& tensor : file.tensors()) {
      if (file.find(tensor.name) != &tensor) __builtin_trap();
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
    }
    // Makes the reads observable, so that they are not optimised away.
    [[maybe_unused]] volatile unsigned sink = sum;
  } catch (const hydramix::Error&) {
  }
  return 0;
}
