// SPDX-License-Identifier: Apache-2.0
// Times the selective scan of Mamba-1 (kernels/cuda/selective_scan.h) without LibTorch, so that a
// change to a kernel is built and measured within a minute. A profiler shows its kernels one by
// one.
//
// usage: selective_passes [SEQUENCES LENGTH]...     default: 128 128 8 2048 1 65536
//
// 1536 channels of 16 states, bfloat16. Prints the median times in microseconds, and a checksum of
// the results, which tells whether two builds agree.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/selective_scan.h"
#include "kernels/cuda/token_tiles.h"
#include "tools/device_array.h"

namespace hydramix::cuda {
namespace {

using Bfloat16 = __nv_bfloat16;
constexpr int64_t kChannels = 1536, kStates = 16;
constexpr int kWarmUp = 3, kRounds = 15;

// Uniform numbers between low and high.
template <class T>
__global__ void fill(T* values, int64_t count, uint32_t seed, float low, float high) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    uint32_t v = static_cast<uint32_t>(i) * 2654435761U ^ seed * 0x9e3779b9U;
    v ^= v >> 16, v *= 0x85ebca6bU, v ^= v >> 13, v *= 0xc2b2ae35U, v ^= v >> 16;
    values[i] = static_cast<T>(low + (high - low) * static_cast<float>(v >> 8) / 16777216.0F);
  }
}
template <class T>
struct Random : DeviceArray<T> {
  Random(int64_t count, uint32_t seed, float low, float high) : DeviceArray<T>(count) {
    fill<<<1024, 256>>>(this->data, count, seed, low, high);
    check(cudaGetLastError());
  }
};

template <class T>
double checksum(const DeviceArray<T>& array) {
  std::vector<T> values(array.size);
  check(cudaMemcpy(values.data(), array.data, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    sum += static_cast<float>(values[i]) * static_cast<double>(1 + i % 97);
  return sum;
}

template <class Launch>
float median_us(const Launch& launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < kWarmUp + kRounds; ++i) {
    check(cudaEventRecord(begin));
    check(launch());
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    if (i >= kWarmUp) times.push_back(1000 * ms);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

void run(int64_t sequences, int64_t length) {
  const int64_t n = sequences * length, C = kChannels, N = kStates;
  const DeviceArray<int2> bounds(n);
  const DeviceArray<int> begins(2);
  check(fill_uniform_table(n, length, 1, bounds.data, begins.data, nullptr));
  const Random<Bfloat16> x(n * C, 1, -1, 1), dt(n * C, 2, -1, 1), b(n * N, 3, -1, 1),
      c(n * N, 4, -1, 1), dy(n * C, 5, -1, 1);
  const Random<float> A(C * N, 6, -8, -0.1F), bias(C, 7, -5, -3), skip(C, 8, -1, 1);
  const DeviceArray<Bfloat16> y(n * C), dx(n * C), ddt(n * C), db(n * N), dc(n * N);
  const DeviceArray<float> dA(C * N), dbias(C), dskip(C);
  SelectiveScanShape shape{n, C, N};
  shape.length = length;
  shape.dt_high = INFINITY;
  const SelectiveScanInputs<Bfloat16> in{{x.data, C}, {dt.data, C}, {b.data, N}, {c.data, N},
                                         A.data,      bias.data,    skip.data};
  const DeviceArray<float> states(selective_scan_states(shape));
  const DeviceArray<uint8_t> forward_work(selective_scan_forward_workspace(shape) + 16),
      backward_work(selective_scan_backward_workspace(shape) + 16);
  SelectiveScanForward<Bfloat16> forward{shape, in, {y.data, C}, nullptr, forward_work.data};
  const float alone = median_us([&] { return selective_scan_forward(forward, bounds.data, 0); });
  forward.states = states.data;
  const float kept = median_us([&] { return selective_scan_forward(forward, bounds.data, 0); });
  const SelectiveScanBackward<Bfloat16> backward{
      shape,        in,           states.data, {dy.data, C}, {dx.data, C}, {ddt.data, C},
      {db.data, N}, {dc.data, N}, dA.data,     dbias.data,   dskip.data,   backward_work.data};
  const float back = median_us([&] { return selective_scan_backward(backward, bounds.data, 0); });
  std::printf(
      "%4lld x %-6lld forward %.1f, keeping states %.1f, backward %.1f us  (y %.6g dx %.6g ddt "
      "%.6g "
      "db %.6g dc %.6g dA %.6g)\n",
      static_cast<long long>(sequences), static_cast<long long>(length), alone, kept, back,
      checksum(y), checksum(dx), checksum(ddt), checksum(db), checksum(dc), checksum(dA));
}

}  // namespace
}  // namespace hydramix::cuda

int main(int argc, char** argv) {
  try {
    std::vector<int64_t> sizes{128, 128, 8, 2048, 1, 65536};
    if (argc > 1) sizes.clear();
    for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
    for (std::size_t i = 0; i + 1 < sizes.size(); i += 2)
      hydramix::cuda::run(sizes[i], sizes[i + 1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
