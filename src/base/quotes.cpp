// SPDX-License-Identifier: Apache-2.0
#include "base/quotes.h"

#include <nlohmann/json.hpp>

namespace hydramix {
std::string_view clipped(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

std::string in_quotes(std::string_view text) {
  const std::string_view shown = clipped(text, 160);
  // Dumped as a JSON string, bytes that are not UTF-8 as U+FFFD.
  return nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         (shown.size() < text.size() ? "..." : "");
}

std::string escaped(std::string_view text) {
  std::string quoted = in_quotes(text);
  quoted.erase(quoted.rfind('"'), 1);
  return quoted.substr(1);
}

}  // namespace hydramix
