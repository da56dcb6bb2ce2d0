// SPDX-License-Identifier: Apache-2.0
// The learning rate over time, as a share of its peak: linear warm-up, then a decrease to `final`.
//
//   linear    1 - (1 - final) g
//   cosine    final + (1 - final) (1 + cos(pi g)) / 2
//   constant  1
//
// g is the share of the steps after the warm-up that are done.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include "hydramix/options.h"

namespace hydramix {

struct ScheduleOptions {
  double warmup = 0.06;
  double final = 0.02;
  std::string shape = "linear";

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("warmup", self.warmup, Range{0.0, 1.0}, "share of the steps in which the rate rises");
    v("final", self.final, Range{0.0, 1.0}, "rate at the last step, as a share of the peak");
    v("shape", self.shape, Choices{"linear", "cosine", "constant"},
      "decrease of the rate after the warm-up; constant: none, and final is ignored");
  }
};

// For step = 0 .. steps - 1. The first step already learns, and the last has the final rate.
inline double rate_share(const ScheduleOptions& options, int64_t step, int64_t steps) {
  const auto warm = static_cast<int64_t>(std::ceil(options.warmup * static_cast<double>(steps)));
  if (step < warm) return static_cast<double>(step + 1) / static_cast<double>(warm);
  const auto way = static_cast<double>(std::max<int64_t>(steps - 1 - warm, 1));
  const double gone = std::min(1.0, static_cast<double>(step - warm) / way);
  if (options.shape == "constant") return 1;
  if (options.shape == "cosine")
    return options.final + (1 - options.final) * (1 + std::cos(std::numbers::pi * gone)) / 2;
  return 1 - gone * (1 - options.final);
}

}  // namespace hydramix
