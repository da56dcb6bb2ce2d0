// SPDX-License-Identifier: Apache-2.0
// The chart of `hydramix bench --suite mixers --scaling`: times over lengths, one panel per pass.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "bench/slope.h"

namespace hydramix::bench {

using PassTimes = std::map<std::string, Points>;  // "forward", "forward_backward": (length, ms)

// If there are many mixers, a few well-known ones are drawn in colour and the others in grey.
// Draws nothing if no mixer has times.
void write_scaling_chart(const std::filesystem::path& path,
                         const std::map<std::string, PassTimes>& mixers);

}  // namespace hydramix::bench
