// SPDX-License-Identifier: Apache-2.0
// Prepares text from files and command lines for messages and tables: escapes control characters
// (so that a file cannot control the terminal or forge lines), replaces bytes that are not UTF-8,
// and truncates long texts.
#pragma once

#include <string>
#include <string_view>

namespace hydramix {

// At most `limit` bytes, not ending inside a character. Clip a text before you measure or show it:
// a name in a hostile file can have a hundred million letters.
std::string_view clipped(std::string_view text, std::size_t limit);

std::string escaped(std::string_view text);    // a\nb -> a\nb
std::string in_quotes(std::string_view text);  // the same, in double quotes

}  // namespace hydramix
