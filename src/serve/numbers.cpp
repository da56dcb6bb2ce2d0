// SPDX-License-Identifier: Apache-2.0
#include "serve/numbers.h"

#include <charconv>

namespace hydramix::serve {
namespace {

template <class Number>
void append_shortest(std::string& text, Number value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text.append(digits, end);
}

template <class Number>
void append_all(std::string& text, std::span<const Number> values) {
  text += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    append_shortest(text, values[i]);
  }
  text += ']';
}

template <class Number>
void append_all_rows(std::string& text, std::span<const Number> values, std::size_t columns) {
  text += '[';
  for (std::size_t begin = 0; begin < values.size(); begin += columns) {
    if (begin > 0) text += ',';
    append_all(text, values.subspan(begin, columns));
  }
  text += ']';
}

}  // namespace

void append_number(std::string& text, float value) { append_shortest(text, value); }
void append_number(std::string& text, double value) { append_shortest(text, value); }
void append_list(std::string& text, std::span<const float> values) { append_all(text, values); }
void append_list(std::string& text, std::span<const double> values) { append_all(text, values); }
void append_rows(std::string& text, std::span<const float> values, std::size_t columns) {
  append_all_rows(text, values, columns);
}
void append_rows(std::string& text, std::span<const double> values, std::size_t columns) {
  append_all_rows(text, values, columns);
}

std::string base64(std::span<const uint8_t> bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const uint32_t group = static_cast<uint32_t>(bytes[i]) << 16 |
                           (left > 1 ? static_cast<uint32_t>(bytes[i + 1]) << 8 : 0) |
                           (left > 2 ? static_cast<uint32_t>(bytes[i + 2]) : 0);
    text += kLetters[group >> 18];
    text += kLetters[group >> 12 & 63];
    text += left > 1 ? kLetters[group >> 6 & 63] : '=';
    text += left > 2 ? kLetters[group & 63] : '=';
  }
  return text;
}

}  // namespace hydramix::serve
