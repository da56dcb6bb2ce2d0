// SPDX-License-Identifier: Apache-2.0
#include "base/formatted.h"

#include <cstdarg>
#include <cstdio>

namespace hydramix::formatting {

std::string print(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(length < 0 ? 0 : static_cast<std::size_t>(length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

}  // namespace hydramix::formatting
