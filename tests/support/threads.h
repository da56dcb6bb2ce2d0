// SPDX-License-Identifier: Apache-2.0
// Checks that results do not depend on the number of threads.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix::test {

// Returns the tensors of `compute` with one thread; fails unless three threads give the same bits.
inline std::vector<torch::Tensor> same_for_any_threads(
    const std::function<std::vector<torch::Tensor>()>& compute) {
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const auto one = compute();
  torch::set_num_threads(3);
  const auto three = compute();
  torch::set_num_threads(threads);
  EXPECT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(torch::equal(one[i], three[i])) << "tensor " << i;
  return one;
}

}  // namespace hydramix::test
