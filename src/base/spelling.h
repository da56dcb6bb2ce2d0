// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?": the nearest of the known names, for errors about unknown ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

// The known name nearest to `word` by edit distance (insert, delete, replace, swap neighbours);
// empty when none is close enough to be a likely slip.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// " Did you mean 'x'?" or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

// "a, b, c"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace hydramix
