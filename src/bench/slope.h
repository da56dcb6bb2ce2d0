// SPDX-License-Identifier: Apache-2.0
// The growth of a time with the length: the exponent p of t = c L^p.
#pragma once

#include <optional>
#include <utility>
#include <vector>

namespace hydramix::bench {

using Points = std::vector<std::pair<double, double>>;  // (length, time), all positive

// Least squares of log t over log L; none for fewer than two lengths.
std::optional<double> log_log_slope(const Points& points);

}  // namespace hydramix::bench
