// SPDX-License-Identifier: Apache-2.0
// Times of kernels, printed by tests if HYDRAMIX_TIME is set.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace hydramix::cuda {

#define SKIP_UNLESS_TIMED() \
  if (std::getenv("HYDRAMIX_TIME") == nullptr) GTEST_SKIP() << "set HYDRAMIX_TIME to see times"

// Median of 20 calls behind 5 that do not count. `bytes` is what a call has to move.
template <typename F>
void print_time(const std::string& name, double bytes, const F& call) {
  cudaEvent_t begin, end;
  ASSERT_EQ(cudaSuccess, cudaEventCreate(&begin));
  ASSERT_EQ(cudaSuccess, cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 25; ++i) {
    ASSERT_EQ(cudaSuccess, cudaEventRecord(begin));
    ASSERT_EQ(cudaSuccess, call());
    ASSERT_EQ(cudaSuccess, cudaEventRecord(end));
    ASSERT_EQ(cudaSuccess, cudaEventSynchronize(end));
    float milliseconds = 0;
    ASSERT_EQ(cudaSuccess, cudaEventElapsedTime(&milliseconds, begin, end));
    if (i >= 5) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  const double seconds = times[10] * 1e-3;
  std::printf("%-56s %9.1f us %7.0f GB/s\n", name.c_str(), seconds * 1e6, bytes / seconds * 1e-9);
}

}  // namespace hydramix::cuda
