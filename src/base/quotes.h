// SPDX-License-Identifier: Apache-2.0
// Text from files and command lines, made fit for a message or a table: control characters escaped
// (a file must not steer the terminal or forge lines), bytes that are not UTF-8 replaced, long
// texts cut.
#pragma once

#include <string>
#include <string_view>

namespace hydramix {

// At most `limit` bytes, not ending inside a character. To be cut before it is measured or shown: a
// name in a hostile file can have a hundred million letters.
std::string_view clipped(std::string_view text, std::size_t limit);

std::string escaped(std::string_view text);    // a\nb -> a\nb
std::string in_quotes(std::string_view text);  // the same, in double quotes

}  // namespace hydramix
