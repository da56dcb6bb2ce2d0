// SPDX-License-Identifier: Apache-2.0
// How the Hugging Face tokenizer treats each character; generated. All tables are sorted.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace hydramix::unicode {

struct Range {
  char32_t first, last;
};

// Every step-th character from first to last has its lower case at a fixed distance.
struct LowerCase {
  char32_t first, last;
  uint32_t step;
  int32_t distance;
};

struct CombiningClass {
  char32_t first, last;
  uint8_t rank;  // of the canonical combining class among all classes, from 1
};

struct Canonical {
  char32_t c;
  std::array<char32_t, 4> parts;  // the full decomposition; 0 after its end
};

extern const std::span<const Range> kWhiteSpaces;
extern const std::span<const Range> kControls;
extern const std::span<const Range> kPunctuation;
extern const std::span<const Range> kNonspacingMarks;  // without those that decompose
extern const std::span<const Range> kChineseBlocks;
extern const std::span<const LowerCase> kLowerCases;  // without U+0130
extern const std::span<const CombiningClass> kCombiningClasses;
extern const std::span<const Canonical> kDecompositions;  // without Hangul

}  // namespace hydramix::unicode
