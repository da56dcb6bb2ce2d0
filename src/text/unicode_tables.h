// SPDX-License-Identifier: Apache-2.0
// Categories of Unicode 9.0, generated. unicode.h says why not the newest.
#pragma once

#include <array>
#include <cstdint>

namespace hydramix::unicode {

struct Range {
  char32_t first, last;
};

extern const std::array<Range, 285> kNonspacingMarks;  // Mn
extern const std::array<Range, 168> kPunctuation;      // Pc, Pd, Pe, Pf, Pi, Po, Ps
extern const std::array<Range, 18> kFormat;            // Cf

}  // namespace hydramix::unicode
