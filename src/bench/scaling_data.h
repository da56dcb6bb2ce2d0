// SPDX-License-Identifier: Apache-2.0
// The times of `hydramix bench --suite mixers --scaling` that docs/data/scaling.jsonl keeps. The
// build compiles the file in (cmake/HydramixScaling.cmake).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "bench/scaling_chart.h"

namespace hydramix::bench {

struct ScalingData {
  std::string command, commit, machine;  // how the times were measured
  std::map<std::string, PassTimes> mixers;

  // The exponent of the length in the mixer's time; none if it was not measured.
  std::optional<double> slope(const std::string& mixer, const std::string& pass) const;
};

// The first line says how the times were measured; the others are as written by bench --json.
ScalingData parse_scaling(const std::string& text, const std::string& origin);

// The measurements of the compiled-in file.
const ScalingData& measured_scaling();

// Its text.
extern const char* const kScalingText;

}  // namespace hydramix::bench
