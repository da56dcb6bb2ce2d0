// SPDX-License-Identifier: Apache-2.0
// Numbers and vectors as JSON text, in the shortest decimals that give the same bits back. A JSON
// tree of a vector would cost ten times its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix::serve {

void append_number(std::string& text, float value);
void append_number(std::string& text, double value);
void append_list(std::string& text, std::span<const float> values);
void append_list(std::string& text, std::span<const double> values);
// A matrix of rows x columns as a list of lists.
void append_rows(std::string& text, std::span<const float> values, std::size_t columns);
void append_rows(std::string& text, std::span<const double> values, std::size_t columns);

// Base64 of RFC 4648, with padding.
std::string base64(std::span<const uint8_t> bytes);
// Empty where the text is not base64.
std::optional<std::vector<uint8_t>> from_base64(std::string_view text);

}  // namespace hydramix::serve
