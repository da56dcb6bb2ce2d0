// SPDX-License-Identifier: Apache-2.0
// Times the passes of retention, by the scan of heads with their own b and c
// (kernels/cuda/head_scan.h) and by the general one (kernels/cuda/scan.h), without LibTorch, so
// that a change to a kernel is built and measured within a minute.
//
// usage: head_passes [SEQUENCES LENGTH]...     default: 128 128 8 2048 1 65536
//
// 24 heads of 64 channels and 64 states, one direction, RetNet's decays, bfloat16. Prints the
// median times in microseconds, and checksums of the results, which tell whether two builds agree.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/head_scan.h"
#include "kernels/cuda/token_tiles.h"
#include "tools/device_array.h"

namespace hydramix::cuda {
namespace {

using Bfloat16 = __nv_bfloat16;
constexpr int64_t kHeads = 24, kWidth = 64, kRow = kHeads * kWidth;
constexpr int kWarmUp = 3, kRounds = 15;

// Uniform numbers between -1 and 1.
__global__ void fill(Bfloat16* values, int64_t count, uint32_t seed) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    uint32_t v = static_cast<uint32_t>(i) * 2654435761U ^ seed * 0x9e3779b9U;
    v ^= v >> 16, v *= 0x85ebca6bU, v ^= v >> 13, v *= 0xc2b2ae35U, v ^= v >> 16;
    values[i] = __float2bfloat16(static_cast<float>(v >> 8) * 0x1p-23F - 1.0F);
  }
}
struct Random : DeviceArray<Bfloat16> {
  Random(int64_t count, uint32_t seed) : DeviceArray<Bfloat16>(count) {
    fill<<<1024, 256>>>(data, count, seed);
    check(cudaGetLastError());
  }
};

double checksum(const DeviceArray<Bfloat16>& array) {
  std::vector<Bfloat16> values(array.size);
  check(cudaMemcpy(values.data(), array.data, values.size() * sizeof(Bfloat16),
                   cudaMemcpyDeviceToHost));
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    sum += static_cast<float>(values[i]) * static_cast<double>(1 + i % 97);
  return sum;
}

// The time from one pass to the next.
class PassTimes {
 public:
  // launch(observer) is one call.
  template <class Launch>
  void run(const char* name, const Launch& launch) {
    for (int i = 0; i < kWarmUp + kRounds; ++i) {
      mark("begin");
      check(launch(PassObserver{&PassTimes::launched, this}));
      check(cudaDeviceSynchronize());
      float all = 0;
      for (std::size_t m = 1; m < marks_.size(); ++m) {
        float ms = 0;
        check(cudaEventElapsedTime(&ms, marks_[m - 1].event, marks_[m].event));
        all += 1000 * ms;
        if (i >= kWarmUp) add(marks_[m].pass, 1000 * ms);
      }
      if (i >= kWarmUp) add(name, all);
      for (const auto& one : marks_) cudaEventDestroy(one.event);
      marks_.clear();
    }
  }
  void print() {
    for (const auto& pass : order_) {
      auto& times = times_[pass];
      std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
      std::printf("  %s %.1f", pass.c_str(), times[kRounds / 2]);
    }
    std::printf(" us");
  }

 private:
  struct Mark {
    std::string pass;
    cudaEvent_t event;
  };
  static void launched(void* context, const char* pass) {
    static_cast<PassTimes*>(context)->mark(pass);
  }
  void mark(const char* pass) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event));
    check(cudaEventRecord(event, nullptr));
    marks_.push_back({pass, event});
  }
  void add(const std::string& pass, float us) {
    if (times_.count(pass) == 0) order_.push_back(pass);
    times_[pass].push_back(us);
  }

  std::vector<Mark> marks_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<float>> times_;
};

struct HeadKernels {
  static constexpr const char* name = "heads  ";
  static constexpr auto saved_bytes = head_scan_saved_bytes;
  static constexpr auto forward_bytes = head_scan_forward_bytes;
  static constexpr auto backward_bytes = head_scan_backward_bytes;
  static constexpr auto backward = head_scan_backward;
  static cudaError_t forward(const ScanForward<Bfloat16>& p, const ScanLayout& layout,
                             const ScanMemory& memory, bool gradients, const PassObserver& passed) {
    return head_scan_forward(p, layout, memory, gradients, nullptr, passed);
  }
};
struct GeneralKernels {
  static constexpr const char* name = "general";
  static constexpr auto saved_bytes = scan_saved_bytes;
  static constexpr auto forward_bytes = scan_forward_bytes;
  static constexpr auto backward_bytes = scan_backward_bytes;
  static constexpr auto backward = scan_backward;
  static cudaError_t forward(const ScanForward<Bfloat16>& p, const ScanLayout& layout,
                             const ScanMemory& memory, bool, const PassObserver& passed) {
    return scan_forward(p, layout, memory, nullptr, passed);
  }
};

template <class Kernels>
void run(int64_t sequences, int64_t length) {
  const int64_t n = sequences * length;
  const TokenTiles tiles(sequences, length);
  const DeviceArray<int2> bounds(n);
  const DeviceArray<int> begins(tiles.tiles() + 1);
  check(fill_uniform_table(n, length, tiles.tiles(), bounds.data, begins.data, nullptr));
  ScanLayout layout{bounds.data, begins.data, n, tiles.tiles()};
  layout.segment = tiles.segment(kHeads);
  layout.states = tiles.states;
  layout.carries = layout.states && tiles.carries(layout.segment);

  std::vector<float> decays;
  for (int h = 0; h < kHeads; ++h) decays.push_back(std::log1p(-std::exp2(-5.0F - h)));
  const DeviceArray<float> A(kHeads), zero(kHeads), dt(n * kHeads);
  check(cudaMemcpy(A.data, decays.data(), kHeads * sizeof(float), cudaMemcpyHostToDevice));
  const Random x(n * kRow, 1), b(n * kRow, 2), c(n * kRow, 3), dy(n * kRow, 4);
  const DeviceArray<Bfloat16> y(n * kRow), dx(n * kRow), db(n * kRow), dc(n * kRow);
  const ScanShape shape{kHeads, kWidth, kHeads, kWidth, 0, {true, false}, 1, 1};
  ScanInputs<Bfloat16> in;
  in.x = {x.data, kRow};
  in.direction[0] = {{dt.data, kHeads}, {b.data, kRow}, {c.data, kRow}};
  in.dt_bias = zero.data, in.A = A.data, in.diagonal = zero.data;
  in.dt_is_float = true;
  ScanGradients<Bfloat16> out;
  out.x = {dx.data, kRow};
  out.direction[0].b = {db.data, kRow}, out.direction[0].c = {dc.data, kRow};

  const DeviceArray<uint8_t> saved(Kernels::saved_bytes(shape, layout) + 16),
      forward_work(Kernels::forward_bytes(shape, layout) + 16),
      backward_work(Kernels::backward_bytes(shape, layout) + 16);
  PassTimes alone, forward, backward;
  const ScanForward<Bfloat16> call{shape, in, {y.data, kRow}};
  alone.run("forward", [&](const PassObserver& passed) {
    return Kernels::forward(call, layout, {saved.data, forward_work.data}, false, passed);
  });
  forward.run("forward for backward", [&](const PassObserver& passed) {
    return Kernels::forward(call, layout, {saved.data, forward_work.data}, true, passed);
  });
  backward.run("backward", [&](const PassObserver& passed) {
    return Kernels::backward({shape, in, {dy.data, kRow}, out}, layout,
                             {saved.data, backward_work.data}, nullptr, passed);
  });
  std::printf("%4lld x %-6lld %s", static_cast<long long>(sequences),
              static_cast<long long>(length), Kernels::name);
  alone.print();
  std::printf("\n   ");
  forward.print();
  std::printf("\n   ");
  backward.print();
  std::printf("\n      y %.6g dx %.6g db %.6g dc %.6g\n", checksum(y), checksum(dx), checksum(db),
              checksum(dc));
}

}  // namespace
}  // namespace hydramix::cuda

int main(int argc, char** argv) {
  using namespace hydramix::cuda;
  try {
    std::vector<int64_t> sizes{128, 128, 8, 2048, 1, 65536};
    if (argc > 1) sizes.clear();
    for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
    for (std::size_t i = 0; i + 1 < sizes.size(); i += 2) {
      run<HeadKernels>(sizes[i], sizes[i + 1]);
      run<GeneralKernels>(sizes[i], sizes[i + 1]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
