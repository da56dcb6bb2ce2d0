// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for tokenizer.json and vocab.txt: any file is refused with an Error or gives a
// tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>

#include "hydramix/error.h"
#include "hydramix/tokenizer.h"
#include "input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::InputFile file;
  try {
    const auto tokenizer = hydramix::Tokenizer::load(file.path_of(data, size));
    const auto encoding = tokenizer.encode("the word [MASK] meets WORDS.");
    for (const auto id : encoding.ids)
      if (id < 0 || id >= tokenizer.size()) __builtin_trap();
    [[maybe_unused]] const auto text = tokenizer.decode(encoding.ids);
  } catch (const hydramix::Error&) {
  }
  return 0;
}
