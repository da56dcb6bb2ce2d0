// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the reader of PyTorch's checkpoints: the zip archive, the pickle and the
// tensors. Any input must either be refused with an Error or yield views that are readable
// throughout. Build with -fsanitize=fuzzer,address,undefined and start from
// fuzz/corpus/torch_archive.
#include <cstddef>
#include <cstdint>
#include <span>

#include "hydramix/error.h"
#include "io/torch_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hydramix::torch_archive::File;
  using hydramix::torch_archive::Selection;
  for (const auto selection : {Selection::kWeights, Selection::kEverything, Selection::kAnything}) {
    try {
      const auto file = File::parse(std::as_bytes(std::span<const std::uint8_t>(data, size)),
                                    "fuzz input", selection);
      unsigned sum = 0;
      for (const auto& tensor : file.tensors())
        for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      // Makes the reads observable, so that they are not optimised away.
      [[maybe_unused]] volatile unsigned sink = sum;
    } catch (const hydramix::Error&) {
    }
  }
  return 0;
}
