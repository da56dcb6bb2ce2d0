// SPDX-License-Identifier: Apache-2.0
// Formats text for files that include LibTorch. Its newer archives ship their own fmt headers,
// which would shadow the fmt library's.
#pragma once

#include <concepts>
#include <string>

namespace hydramix {

namespace formatting {
inline const char* plain(const std::string& text) { return text.c_str(); }
inline const char* plain(const char* text) { return text; }
inline double plain(double number) { return number; }
long long plain(std::integral auto number) { return static_cast<long long>(number); }
std::string print(const char* format, ...);
}  // namespace formatting

// As printf: %s for text, %f and %g for floating point, %lld for any integer.
template <class... Args>
std::string formatted(const char* format, const Args&... args) {
  return formatting::print(format, formatting::plain(args)...);
}

}  // namespace hydramix
