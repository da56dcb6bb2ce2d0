// SPDX-License-Identifier: Apache-2.0
#include "ops/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace hydramix {
namespace {

// 1e-20 * 1e-20 as the processor computes it now, and not the compiler.
float tiny_product() {
  volatile float factor = 1e-20F;
  return factor * factor;
}

TEST(Parallel, CallsEveryTaskOnce) {
  for (const int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    parallel(count, [&](int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    for (const auto& number : calls) EXPECT_EQ(number, 1) << count;
  }
}

TEST(Parallel, TasksFlushDenormalsAndTheirCallerDoesNot) {
  ASSERT_GT(tiny_product(), 0);
  for (const int64_t count : {1, 5}) {
    std::atomic<int> zeros = 0;
    parallel(count, [&](int64_t) { zeros += tiny_product() == 0; });
    EXPECT_EQ(zeros, count);
    EXPECT_GT(tiny_product(), 0);
    EXPECT_THROW(parallel(count, [](int64_t) { throw std::runtime_error("fault"); }),
                 std::runtime_error);
    EXPECT_GT(tiny_product(), 0);
  }
}

}  // namespace
}  // namespace hydramix
