// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/adamw.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

constexpr float kNoClip = std::numeric_limits<float>::infinity();

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

AdamWStep some_step() {
  return {.gradient_scale = 0.01f,
          .beta1 = 0.9f,
          .beta2 = 0.98f,
          .epsilon = 1e-6f,
          .denominator_scale = 1.7f,
          .ema = 0.75f};
}

std::vector<AdamWGroup> some_groups(float rate = 0.1f) {
  return {{rate, 1.0f}, {rate, 0.95f}, {0.3f * rate, 0.9f}};
}

// Buffers (n) that begin `offset` values after an aligned address.
struct Buffers {
  Buffers(int64_t n, int64_t shift, double gradient_size)
      : offset(shift),
        gradient(values(n, 1, gradient_size)),
        weight(values(n, 2, 1)),
        m(values(n, 3, 0.3)),
        v(squared(values(n, 4, 0.3))),
        average(values(n, 5, 1)),
        copy(n + shift) {}

  AdamWBuffers all() const {
    return {gradient.data() + offset, weight.data() + offset,  m.data() + offset,
            v.data() + offset,        average.data() + offset, copy.data() + offset};
  }
  std::vector<float> values(int64_t n, uint64_t seed, double size) const {
    return stored<float>(normal_values(n + offset, seed, size));
  }
  static std::vector<float> squared(std::vector<float> values) {
    for (auto& v : values) v *= v;
    return values;
  }

  int64_t offset;
  DeviceBuffer<float> gradient, weight, m, v, average;
  DeviceBuffer<__nv_bfloat16> copy;
};

struct Ranges {
  std::vector<int64_t> ends;
  std::vector<uint8_t> numbers;  // of some_groups()
};

// Many short ranges, some empty, then longer ones.
Ranges some_ranges(int64_t n) {
  Ranges ranges;
  int64_t end = 0;
  for (int64_t r = 0; end < n; ++r) {
    end = std::min(n, end + (r % 11 == 5 ? 0 : 1 + r * r * r % 2003));
    ranges.ends.push_back(end);
    ranges.numbers.push_back(static_cast<uint8_t>(r % 3));
  }
  return ranges;
}

double sum_of_squares_of(const std::vector<float>& values, int64_t offset) {
  double sum = 0;
  for (std::size_t i = static_cast<std::size_t>(offset); i < values.size(); ++i)
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

void check_step(int64_t n, int64_t offset, float clip, bool average, bool copy) {
  SCOPED_TRACE(testing::Message() << n << " values from " << offset << " on, clip " << clip
                                  << (average ? ", average" : "") << (copy ? ", copy" : ""));
  const Buffers buffers(n, offset, 5);
  const auto ranges = some_ranges(n);
  const AdamWStep step = some_step();
  const auto groups = some_groups();
  const auto g = buffers.gradient.host(), w = buffers.weight.host(), m = buffers.m.host(),
             v = buffers.v.host(), a = buffers.average.host();
  const auto poison = buffers.copy.host();
  const double squares = sum_of_squares_of(g, offset);

  auto expected_m = widened(m), expected_v = widened(v), expected_w = widened(w),
       expected_a = widened(a);
  const double norm = std::sqrt(squares) * static_cast<double>(step.gradient_scale);
  const double scale = step.gradient_scale * (norm > clip ? clip / norm : 1);
  std::size_t range = 0;
  for (auto i = static_cast<std::size_t>(offset); i < w.size(); ++i) {
    while (static_cast<int64_t>(i) - offset >= ranges.ends[range]) ++range;
    const double beta1 = step.beta1, beta2 = step.beta2, ema = step.ema, gradient = g[i] * scale;
    expected_m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    expected_v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    const auto& group = groups[ranges.numbers[range]];
    expected_w[i] = static_cast<double>(group.keep) * w[i] -
                    group.rate * expected_m[i] /
                        (std::sqrt(expected_v[i]) * step.denominator_scale + step.epsilon);
    if (average) expected_a[i] = ema * a[i] + (1 - ema) * expected_w[i];
  }

  const DeviceBuffer<int64_t> ends(ranges.ends);
  const DeviceBuffer<uint8_t> numbers(ranges.numbers);
  const DeviceBuffer<AdamWGroup> groups_on_device(groups);
  const DeviceBuffer<AdamWStep> on_device(std::vector<AdamWStep>{step});
  const DeviceBuffer<double> sum(std::vector<double>{squares});
  auto all = buffers.all();
  if (!average) all.average = nullptr;
  if (!copy) all.copy = nullptr;
  ASSERT_CUDA(adamw(
      n, all,
      {ends.data(), numbers.data(), static_cast<int>(ranges.ends.size()), groups_on_device.data()},
      on_device.data(), sum.data(), clip, nullptr));

  const auto new_w = buffers.weight.host();
  EXPECT_LT(relative_error(widened(buffers.m.host()), expected_m), 2e-7);
  EXPECT_LT(relative_error(widened(buffers.v.host()), expected_v), 2e-7);
  EXPECT_LT(relative_error(widened(new_w), expected_w), 3e-7);
  EXPECT_LT(relative_error(widened(buffers.average.host()), expected_a), 3e-7);
  EXPECT_TRUE(same_bits(g, buffers.gradient.host()));
  auto expected_copy = poison;
  for (auto i = static_cast<std::size_t>(offset); copy && i < w.size(); ++i)
    expected_copy[i] = __nv_bfloat16(new_w[i]);
  EXPECT_TRUE(same_bits(expected_copy, buffers.copy.host()));
}

TEST(CudaAdamW, StepOfAnySize) {
  SKIP_WITHOUT_GPU();
  for (const int64_t n : {1, 2, 3, 4, 5, 255, 1023, 1025, 8191, 8192, 8193, 100003})
    for (const int64_t offset : {0, 1}) check_step(n, offset, 1.0f, true, true);
}

TEST(CudaAdamW, WhatIsOptional) {
  SKIP_WITHOUT_GPU();
  for (const bool average : {false, true})
    for (const bool copy : {false, true}) check_step(3001, 0, 1.0f, average, copy);
  // The copy alone is not aligned to 8 bytes for offsets of 2, all else is for 4.
  for (const int64_t offset : {2, 4}) check_step(3001, offset, 1.0f, true, true);
}

TEST(CudaAdamW, Clipping) {
  SKIP_WITHOUT_GPU();
  for (const float clip : {0.0f, 0.1f, 2.7f, 1e4f, kNoClip}) check_step(3001, 0, clip, true, true);
}

TEST(CudaAdamW, WithoutRangesNoWeightChanges) {
  SKIP_WITHOUT_GPU();
  const Buffers buffers(1000, 0, 0);  // a gradient of zero
  const auto w = buffers.weight.host();
  const DeviceBuffer<float> zeros(std::vector<float>(1000, 0.0f));
  const DeviceBuffer<AdamWStep> step(std::vector<AdamWStep>{some_step()});
  const DeviceBuffer<double> squares(std::vector<double>{0.0});
  auto all = buffers.all();
  all.m = zeros.data();
  ASSERT_CUDA(adamw(1000, all, {}, step.data(), squares.data(), 1.0f, nullptr));
  EXPECT_TRUE(same_bits(w, buffers.weight.host()));
}

TEST(CudaAdamW, ANormThatIsNotFiniteChangesNothing) {
  SKIP_WITHOUT_GPU();
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const Buffers buffers(5003, 0, 1);
    ASSERT_CUDA(
        cudaMemcpy(buffers.gradient.data() + 4711, &bad, sizeof bad, cudaMemcpyHostToDevice));
    const auto g = buffers.gradient.host(), w = buffers.weight.host(), m = buffers.m.host(),
               v = buffers.v.host(), a = buffers.average.host();
    const auto copy = buffers.copy.host();
    const DeviceBuffer<double> squares(1), workspace(sum_of_squares_workspace(5003));
    const DeviceBuffer<AdamWStep> step(std::vector<AdamWStep>{some_step()});
    ASSERT_CUDA(
        sum_of_squares(5003, buffers.gradient.data(), squares.data(), workspace.data(), nullptr));
    EXPECT_FALSE(std::isfinite(squares.host()[0]));
    ASSERT_CUDA(adamw(5003, buffers.all(), {}, step.data(), squares.data(), kNoClip, nullptr));
    EXPECT_TRUE(same_bits(w, buffers.weight.host()));
    EXPECT_TRUE(same_bits(m, buffers.m.host()));
    EXPECT_TRUE(same_bits(v, buffers.v.host()));
    EXPECT_TRUE(same_bits(a, buffers.average.host()));
    EXPECT_TRUE(same_bits(copy, buffers.copy.host()));
    EXPECT_TRUE(same_bits(g, buffers.gradient.host()));
  }
}

TEST(CudaAdamW, SumOfSquares) {
  SKIP_WITHOUT_GPU();
  for (const int64_t n : {0, 1, 3, 4, 257, 4095, 4097, 3000001})
    for (const int64_t offset : {0, 3}) {
      SCOPED_TRACE(testing::Message() << n << " values from " << offset << " on");
      const auto values = stored<float>(normal_values(n + offset, 8, 1e-3));
      const DeviceBuffer<float> on_device(values);
      const DeviceBuffer<double> sum(2), workspace(sum_of_squares_workspace(n));
      for (int run = 0; run < 2; ++run)
        ASSERT_CUDA(sum_of_squares(n, on_device.data() + offset, sum.data() + run, workspace.data(),
                                   nullptr));
      const auto sums = sum.host();
      const double expected = sum_of_squares_of(values, offset);
      EXPECT_NEAR(expected, sums[0], 1e-12 * expected);
      EXPECT_EQ(sums[0], sums[1]);
    }
}

TEST(CudaAdamW, MoreValuesThanFitInto32Bits) {
  SKIP_WITHOUT_GPU();
  const int64_t n = (int64_t{1} << 31) + 5;
  std::size_t free = 0, total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free, &total));
  if (free < static_cast<std::size_t>(n) * sizeof(float) * 2) GTEST_SKIP() << "too little memory";
  const DeviceBuffer<float> values(n);
  ASSERT_CUDA(cudaMemset(values.data(), 0, static_cast<std::size_t>(n) * sizeof(float)));
  const float last[2] = {3, 4};
  ASSERT_CUDA(cudaMemcpy(values.data() + n - 2, last, sizeof last, cudaMemcpyHostToDevice));
  const DeviceBuffer<double> sum(1), workspace(sum_of_squares_workspace(n));
  ASSERT_CUDA(sum_of_squares(n, values.data(), sum.data(), workspace.data(), nullptr));
  EXPECT_EQ(25, sum.host()[0]);
}

// A graph is captured once; replays read the current contents of memory.
TEST(CudaAdamW, InAGraph) {
  SKIP_WITHOUT_GPU();
  const int64_t n = 2000;
  const Buffers plain(n, 0, 1), replayed(n, 0, 1);
  const DeviceBuffer<AdamWStep> step(1);
  const DeviceBuffer<double> squares(1), workspace(sum_of_squares_workspace(n));
  const DeviceBuffer<int64_t> ends(std::vector<int64_t>{n / 2, n});
  const DeviceBuffer<uint8_t> numbers(std::vector<uint8_t>{1, 0});
  const DeviceBuffer<AdamWGroup> groups(static_cast<int64_t>(some_groups().size()));
  const auto both = [&](const Buffers& buffers, cudaStream_t stream) {
    const auto error =
        sum_of_squares(n, buffers.gradient.data(), squares.data(), workspace.data(), stream);
    if (error != cudaSuccess) return error;
    return adamw(n, buffers.all(), {ends.data(), numbers.data(), 2, groups.data()}, step.data(),
                 squares.data(), 1.0f, stream);
  };
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(both(replayed, stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  for (const float rate : {0.1f, 0.01f}) {
    const AdamWStep now = some_step();
    ASSERT_CUDA(cudaMemcpy(step.data(), &now, sizeof now, cudaMemcpyHostToDevice));
    const auto rates = some_groups(rate);
    ASSERT_CUDA(cudaMemcpy(groups.data(), rates.data(), rates.size() * sizeof(AdamWGroup),
                           cudaMemcpyHostToDevice));
    ASSERT_CUDA(both(plain, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_CUDA(cudaGraphLaunch(executable, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_TRUE(same_bits(plain.weight.host(), replayed.weight.host()));
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace hydramix::cuda
