// SPDX-License-Identifier: Apache-2.0
// fill_mask FOLDER TEXT: the likeliest words for every [MASK] of a text.
#include "hydramix/fill_mask.h"

#include <cstdio>
#include <exception>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER TEXT\n", argv[0]);
    return 2;
  }
  const auto model = hydramix::FillMask::open(argv[1]);
  for (const auto& words : model.fill(std::string(argv[2]), 3).masks) {
    std::printf("[MASK]\n");
    for (const auto& word : words)
      std::printf("  %.4f  %s\n", word.probability, word.token.c_str());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
