// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/measure.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>

#include "ops/gpu/launch.h"

namespace hydramix::gpu {

double median_ms(const std::function<void()>& f, int warm, int times) {
  for (int i = 0; i < warm; ++i) f();
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    at::cuda::CUDAEvent start(cudaEventDefault), stop(cudaEventDefault);
    start.record();
    f();
    stop.record();
    stop.synchronize();
    all.push_back(start.elapsed_time(stop));
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

void reset_peak_memory() {
  torch::cuda::synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
}

double peak_memory_bytes() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  return static_cast<double>(stats.allocated_bytes[0].peak);
}

}  // namespace hydramix::gpu
