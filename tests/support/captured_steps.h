// SPDX-License-Identifier: Apache-2.0
// Training steps launched directly and as captured graphs, compared.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "support/gpu.h"
#include "train/flat_parameters.h"
#include "train/task.h"

namespace hydramix::test {

// The gradients and the loss of each step.
using StepResults = std::vector<std::pair<torch::Tensor, double>>;

// accumulate(step) -> Totals, without an optimizer in between.
template <class Accumulate>
StepResults results_of_steps(FlatParameters& parameters, const std::vector<int64_t>& steps,
                             const Accumulate& accumulate) {
  StepResults all;
  for (const int64_t step : steps) {
    parameters.zero_gradients();
    const Totals totals = accumulate(step);
    all.emplace_back(parameters.gradients().clone(), totals.loss());
  }
  return all;
}

// A captured step may split sums in other ways.
inline void expect_close_steps(const StepResults& captured, const StepResults& direct) {
  ASSERT_EQ(captured.size(), direct.size());
  for (std::size_t i = 0; i < direct.size(); ++i) {
    EXPECT_NEAR(captured[i].second, direct[i].second, 1e-6 * direct[i].second) << i;
    EXPECT_LE(norm_error(captured[i].first, direct[i].first), 1e-4) << i;
  }
}

}  // namespace hydramix::test
