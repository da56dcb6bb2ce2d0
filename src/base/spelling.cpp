// SPDX-License-Identifier: Apache-2.0
#include "base/spelling.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace hydramix {
namespace {

// Damerau-Levenshtein distance (adjacent swaps), O(|a| |b|): names are short.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// Case and - for _ are the most common slips, so they cost nothing.
std::string folded(std::string_view word) {
  std::string out(word);
  for (char& c : out)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::string target = folded(word);
  std::string best;
  // The distance that decides; among equal ones the number of edits.
  std::pair<std::size_t, std::size_t> best_distance{std::max<std::size_t>(2, target.size() / 3) + 1,
                                                    0};
  for (const auto& name : known) {
    const std::string candidate = folded(name);
    const std::size_t edits = edit_distance(target, candidate);
    // "toeplitz" for "toeplitz_dd": the typed text is a prefix of the name.
    const bool prefix = target.size() >= 3 && candidate.starts_with(target);
    const std::pair distance{prefix ? std::min<std::size_t>(edits, 1) : edits, edits};
    if (distance < best_distance) best_distance = distance, best = name;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string name = nearest(word, known);
  return name.empty() ? "" : " Did you mean '" + name + "'?";
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string out;
  for (const auto& word : words) {
    if (!out.empty()) out += separator;
    out += word;
  }
  return out;
}

}  // namespace hydramix
