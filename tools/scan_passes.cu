// SPDX-License-Identifier: Apache-2.0
// Times every pass of the scan (kernels/cuda/scan.h) without LibTorch, so that a change to a kernel
// is built and measured within a minute.
//
// usage: scan_passes [--tokens N] [--rounds N] [--save FILE] [--compare FILE] [LENGTH...]
//
// The sizes are those of Hydra's block: 24 heads of 64 channels, d_state 64, bfloat16. For
// sequences of each LENGTH it prints the median time of each pass in microseconds. --save writes
// the output and the gradients; --compare prints how far they are from those that another build
// saved.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/scan.h"
#include "kernels/cuda/token_tiles.h"

namespace hydramix::cuda {
namespace {

using Bfloat16 = __nv_bfloat16;

constexpr int kHeads = 24, kChannels = 64, kState = 64;
constexpr int kWarmUp = 3;
// A row of the input projection: the gate, x, b and c of both directions, dt of both.
constexpr int64_t kRow = 2 * kHeads * kChannels + 4 * kState + 2 * kHeads;
constexpr int64_t kAtX = kHeads * kChannels, kAtStates = 2 * kAtX;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    check(cudaMalloc(&data_, size * sizeof(T)));
    check(cudaMemset(data_, 0, size * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    check(cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

__device__ uint32_t scrambled(uint32_t v) {
  v ^= v >> 16;
  v *= 0x85ebca6bU;
  v ^= v >> 13;
  v *= 0xc2b2ae35U;
  return v ^ (v >> 16);
}

// A sum of four uniform numbers with variance 1.
__global__ void fill_normal(Bfloat16* values, int64_t count, uint32_t seed) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    const uint32_t a = scrambled(static_cast<uint32_t>(i) * 2654435761U ^ seed);
    const uint32_t b = scrambled(a + 0x9e3779b9U);
    const uint32_t sum = (a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16);
    const float mean_zero = static_cast<float>(sum) / 65536.0F - 2.0F;
    values[i] = __float2bfloat16(mean_zero * 1.7320508F);
  }
}

class Normal : public DeviceArray<Bfloat16> {
 public:
  Normal(int64_t count, uint32_t seed) : DeviceArray(static_cast<std::size_t>(count)) {
    fill_normal<<<1024, 256>>>(get(), count, seed);
    check(cudaGetLastError());
  }
};

// The time between one pass and the next.
class PassTimes {
 public:
  PassObserver observer() { return {&PassTimes::launched, this}; }

  void begin() { mark("begin"); }
  void end(bool counts) {
    check(cudaDeviceSynchronize());
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, marks_[i - 1].event, marks_[i].event));
      const auto& pass = marks_[i].pass;
      if (times_.count(pass) == 0) order_.push_back(pass);
      auto& times = times_[pass];
      if (counts) times.push_back(1000 * milliseconds);
    }
    for (const auto& mark : marks_) cudaEventDestroy(mark.event);
    marks_.clear();
  }

  void print(int64_t length) {
    std::printf("length %-6lld", static_cast<long long>(length));
    float sum = 0;
    for (const auto& pass : order_) {
      auto& times = times_[pass];
      std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
      const float median = times[times.size() / 2];
      sum += median;
      std::printf(" %s %.1f", pass.c_str(), median);
    }
    std::printf(" | sum %.1f us\n", sum);
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

  std::vector<Mark> marks_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<float>> times_;
};

struct Options {
  int64_t tokens = 32768;
  int rounds = 20;
  std::string save, compare;
  std::vector<int64_t> lengths;
};

// The results of every length in turn, written to one file and compared with another.
class Results {
 public:
  explicit Results(const Options& options) {
    if (!options.save.empty()) saved_.open(options.save, std::ios::binary);
    if (!options.compare.empty()) compared_.open(options.compare, std::ios::binary);
    if ((!options.save.empty() && !saved_) || (!options.compare.empty() && !compared_))
      throw std::runtime_error("the file of results cannot be opened");
  }

  // Columns [begin, end) of rows of `width`.
  void add(const char* name, const DeviceArray<Bfloat16>& array, int64_t width, int64_t begin,
           int64_t end) {
    const auto all = array.values();
    std::vector<Bfloat16> values;
    for (std::size_t row = 0; row < all.size(); row += width)
      values.insert(values.end(), all.begin() + row + begin, all.begin() + row + end);
    const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(Bfloat16));
    if (saved_.is_open()) saved_.write(reinterpret_cast<const char*>(values.data()), bytes);
    if (!compared_.is_open()) return;
    std::vector<Bfloat16> others(values.size());
    if (!compared_.read(reinterpret_cast<char*>(others.data()), bytes))
      throw std::runtime_error("the file to compare with is of other lengths or tokens");
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double here = __bfloat162float(values[i]), there = __bfloat162float(others[i]);
      difference += (here - there) * (here - there);
      norm += there * there;
    }
    std::printf("  %s %.2e", name, std::sqrt(difference / norm));
  }
  void end_line() const {
    if (compared_.is_open()) std::printf("  (relative difference)\n");
  }

 private:
  std::ofstream saved_;
  std::ifstream compared_;
};

void run(const Options& options, int64_t length, Results& results) {
  const int64_t n = options.tokens / length * length;
  const TokenTiles tiles(n / length, length);
  const DeviceArray<int2> bounds(n);
  const DeviceArray<int> begins(tiles.tiles() + 1);
  check(fill_uniform_table(n, length, tiles.tiles(), bounds.get(), begins.get(), nullptr));
  ScanLayout layout{bounds.get(), begins.get(), n, tiles.tiles()};
  layout.states = tiles.states;
  layout.segment = tiles.segment(2 * kHeads);
  layout.carries = tiles.carries(layout.segment);

  const ScanShape shape{kHeads, kChannels,    1, kState,
                        1,      {true, true}, 0, std::numeric_limits<float>::infinity()};
  std::vector<float> bias_values, A_values;
  for (int h = 0; h < kHeads; ++h) {
    bias_values.push_back(-3 + 0.1F * h);
    A_values.push_back(-1.0F - h % 16);
  }
  const DeviceArray<float> bias(bias_values), A(A_values),
      diagonal(std::vector<float>(kHeads, 0.5F));
  const DeviceArray<float> d_bias(kHeads), d_A(kHeads), d_diagonal(kHeads);
  const Normal input(n * kRow, 1), dy(n * kAtX, 2), delta(n * kHeads, 3), dt_there(n * kHeads, 4),
      dt_back(n * kHeads, 5);
  const DeviceArray<Bfloat16> d_input(n * kRow), y(n * kAtX), d_delta(n * kHeads),
      d_dt_there(n * kHeads), d_dt_back(n * kHeads);

  ScanInputs<Bfloat16> in;
  ScanGradients<Bfloat16> out;
  in.x = {input.get() + kAtX, kRow};
  out.x = {d_input.get() + kAtX, kRow};
  for (const int back : {0, 1}) {
    const int64_t at_b = kAtStates + 2 * back * kState, at_c = at_b + kState;
    in.direction[back] = {{(back ? dt_back : dt_there).get(), kHeads},
                          {input.get() + at_b, kRow},
                          {input.get() + at_c, kRow}};
    out.direction[back] = {{(back ? d_dt_back : d_dt_there).get(), kHeads},
                           {d_input.get() + at_b, kRow},
                           {d_input.get() + at_c, kRow}};
  }
  in.dt_bias = bias.get(), in.A = A.get(), in.diagonal = diagonal.get();
  in.delta = {delta.get(), kHeads};
  out.dt_bias = d_bias.get(), out.A = d_A.get(), out.diagonal = d_diagonal.get();
  out.delta = {d_delta.get(), kHeads};

  const DeviceArray<uint8_t> saved(scan_saved_bytes(shape, layout) + 16),
      forward_scratch(scan_forward_bytes(shape, layout) + 16),
      backward_scratch(scan_backward_bytes(shape, layout) + 16);
  PassTimes times;
  for (int round = 0; round < kWarmUp + options.rounds; ++round) {
    times.begin();
    check(scan_forward({shape, in, {y.get(), kAtX}}, layout, {saved.get(), forward_scratch.get()},
                       nullptr, times.observer()));
    check(scan_backward({shape, in, {dy.get(), kAtX}, out}, layout,
                        {saved.get(), backward_scratch.get()}, nullptr, times.observer()));
    times.end(round >= kWarmUp);
  }
  times.print(length);
  results.add("y", y, kAtX, 0, kAtX);
  results.add("dx", d_input, kRow, kAtX, kAtStates);
  results.add("db, dc", d_input, kRow, kAtStates, kAtStates + 4 * kState);
  results.add("d_delta", d_delta, kHeads, 0, kHeads);
  results.add("d_dt", d_dt_there, kHeads, 0, kHeads);
  results.add("d_dt'", d_dt_back, kHeads, 0, kHeads);
  results.end_line();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc) throw std::runtime_error(word + " needs a value");
      return argv[++i];
    };
    if (word == "--tokens")
      options.tokens = std::stoll(value());
    else if (word == "--rounds")
      options.rounds = std::max(1, std::stoi(value()));
    else if (word == "--save")
      options.save = value();
    else if (word == "--compare")
      options.compare = value();
    else
      options.lengths.push_back(std::stoll(word));
  }
  if (options.lengths.empty()) options.lengths = {128, 256, 512, 2048, 8192};
  for (const int64_t length : options.lengths)
    if (length < 1 || length > options.tokens)
      throw std::runtime_error("a length is between 1 and the number of tokens");
  return options;
}

}  // namespace
}  // namespace hydramix::cuda

int main(int argc, char** argv) {
  try {
    const auto options = hydramix::cuda::parse(argc, argv);
    hydramix::cuda::Results results(options);
    for (const int64_t length : options.lengths) hydramix::cuda::run(options, length, results);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
