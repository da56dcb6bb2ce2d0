// SPDX-License-Identifier: Apache-2.0
#include "ops/device_time.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <map>
#include <memory>

#include "ops/cuda/launch.h"

namespace hydramix::on_cuda {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

at::cuda::CUDAEvent& event_of(const std::shared_ptr<void>& event) {
  return *static_cast<at::cuda::CUDAEvent*>(event.get());
}

}  // namespace

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
  return median(std::move(all));
}

std::vector<std::pair<std::string, double>> median_parts_ms(
    const std::function<void(const std::function<void(const char*)>& mark)>& f, int warm,
    int times) {
  // Keeps the device busy while the host launches all parts; otherwise short parts would take as
  // long as their launches. Also evicts the data of the last round from the cache.
  const auto filler = torch::empty(
      {int64_t{1} << 28}, torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCUDA));
  std::vector<std::string> names;  // in their order
  std::map<std::string, std::vector<double>> spent;
  for (int i = 0; i < warm + times; ++i) {
    filler.zero_();
    std::vector<std::pair<std::string, at::cuda::CUDAEvent>> marks;
    const auto mark = [&](const char* name) {
      marks.emplace_back(name, at::cuda::CUDAEvent(cudaEventDefault));
      marks.back().second.record();
    };
    mark("");
    f(mark);
    torch::cuda::synchronize();
    for (std::size_t k = 1; i >= warm && k < marks.size(); ++k) {
      auto& all = spent[marks[k].first];
      if (all.empty()) names.push_back(marks[k].first);
      all.push_back(marks[k - 1].second.elapsed_time(marks[k].second));
    }
  }
  std::vector<std::pair<std::string, double>> medians;
  for (const auto& name : names) medians.emplace_back(name, median(spent[name]));
  return medians;
}

std::shared_ptr<void> record_event() {
  auto event = std::make_shared<at::cuda::CUDAEvent>(cudaEventDefault);
  event->record();
  return event;
}

void wait_for_event(const std::shared_ptr<void>& event) { event_of(event).synchronize(); }
bool has_passed(const std::shared_ptr<void>& event) { return event_of(event).query(); }
double ms_between(const std::shared_ptr<void>& from, const std::shared_ptr<void>& to) {
  return event_of(from).elapsed_time(event_of(to));
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

}  // namespace hydramix::on_cuda
