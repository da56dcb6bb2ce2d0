// SPDX-License-Identifier: Apache-2.0
#include "serve/numbers.h"

#include <array>
#include <charconv>

namespace hydramix::serve {
namespace {

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

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

std::optional<std::vector<uint8_t>> from_base64(std::string_view text) {
  static const auto places = [] {
    std::array<int8_t, 256> made;
    made.fill(-1);
    for (int8_t i = 0; i < 64; ++i) made[static_cast<uint8_t>(kLetters[i])] = i;
    return made;
  }();
  if (text.size() % 4 != 0) return {};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  text.remove_suffix(padding);
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int8_t place = places[static_cast<uint8_t>(text[i])];
    if (place < 0) return {};
    group = group << 6 | static_cast<uint32_t>(place);
    // Every letter but the first of four completes a byte.
    if (i % 4 != 0) bytes.push_back(static_cast<uint8_t>(group >> (6 - 2 * (i % 4))));
  }
  return bytes;
}

}  // namespace hydramix::serve
