// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cross_entropy.h"

#include <cstring>

#include "kernels/cuda/limits.h"
#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

template <typename S>
constexpr double kGradientTolerance = sizeof(S) == 2 ? 4e-3 : 2e-6;

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// One chunk: `z` is the memory, with rows `row` apart from `offset` on.
struct Chunk {
  int64_t rows;
  int columns;
  int64_t row, offset;
  std::vector<double> z;
  std::vector<double> bias;  // empty: none
  std::vector<int64_t> targets;
  float scale = 1;
  std::size_t at(int64_t i, int v) const { return static_cast<std::size_t>(offset + i * row + v); }
};

Chunk random_chunk(int64_t rows, int columns, int64_t row, int64_t offset, bool bias,
                   double deviation = 3) {
  Chunk chunk{rows, columns, row, offset, {}, {}, {}, 1};
  chunk.z = normal_values(offset + rows * row, 17 + static_cast<uint64_t>(columns), deviation);
  if (bias) chunk.bias = normal_values(columns, 5);
  std::mt19937_64 generator(23);
  for (int64_t i = 0; i < rows; ++i)
    chunk.targets.push_back(i % 5 == 3 ? -1 - i
                                       : static_cast<int64_t>(generator() % uint64_t(columns)));
  return chunk;
}

template <typename S>
struct Result {
  std::vector<S> z;
  std::vector<float> loss;
  std::vector<uint8_t> correct;
};

template <typename S>
Result<S> run(const Chunk& chunk, bool gradient) {
  const DeviceBuffer<S> z(stored<S>(chunk.z));
  const DeviceBuffer<float> bias(stored<float>(chunk.bias)), scale(std::vector<float>{chunk.scale}),
      loss(chunk.rows);
  const DeviceBuffer<int64_t> targets(chunk.targets);
  const DeviceBuffer<uint8_t> correct(chunk.rows);
  CrossEntropyRows<S> p;
  p.rows = chunk.rows;
  p.columns = chunk.columns;
  p.z = z.data() + chunk.offset;
  p.z_row = chunk.row;
  p.bias = chunk.bias.empty() ? nullptr : bias.data();
  p.targets = targets.data();
  p.scale = chunk.scale == 1 ? nullptr : scale.data();
  p.loss = loss.data();
  p.correct = correct.data();
  p.gradient = gradient;
  EXPECT_EQ(cudaSuccess, cross_entropy(p, nullptr));
  return {z.host(), loss.host(), correct.host()};
}

template <typename S>
void check(const Chunk& chunk) {
  SCOPED_TRACE(testing::Message() << chunk.rows << " x " << chunk.columns << ", rows " << chunk.row
                                  << " apart, from " << chunk.offset << " on, "
                                  << (chunk.bias.empty() ? "no bias, " : "bias, ") << sizeof(S)
                                  << " bytes");
  const auto before = stored<S>(chunk.z);
  const auto bias = stored<float>(chunk.bias);
  auto expected = before;                 // with the exact gradient, rounded: zeros and neighbours
  std::vector<double> losses, gradients;  // of the rows that count
  std::vector<uint8_t> correct;
  for (int64_t i = 0; i < chunk.rows; ++i) {
    const int64_t target = chunk.targets[static_cast<std::size_t>(i)];
    std::vector<double> x;  // the bias is added in float32
    for (int v = 0; v < chunk.columns; ++v)
      x.push_back(static_cast<float>(wide(before[chunk.at(i, v)])) +
                  (bias.empty() ? 0.0f : bias[static_cast<std::size_t>(v)]));
    const auto largest = std::max_element(x.begin(), x.end());  // the first
    double total = 0;
    for (const double v : x) total += std::exp(v - *largest);
    correct.push_back(target == largest - x.begin());
    losses.push_back(target < 0 ? 0
                                : std::log(total) + *largest - x[static_cast<std::size_t>(target)]);
    for (int v = 0; v < chunk.columns; ++v) {
      const double share = std::exp(x[static_cast<std::size_t>(v)] - *largest) / total;
      const double gradient = target < 0 ? 0 : chunk.scale * (share - (v == target ? 1 : 0));
      gradients.push_back(gradient);
      expected[chunk.at(i, v)] = S(static_cast<float>(gradient));
    }
  }

  const auto result = run<S>(chunk, true);
  EXPECT_LT(relative_error(widened(result.loss), losses), 2e-6);
  EXPECT_EQ(correct, result.correct);
  std::vector<double> found;
  auto rest = result.z;  // the memory outside the gradient
  for (int64_t i = 0; i < chunk.rows; ++i)
    for (int v = 0; v < chunk.columns; ++v) {
      found.push_back(wide(result.z[chunk.at(i, v)]));
      if (chunk.targets[static_cast<std::size_t>(i)] < 0) {
        ASSERT_EQ(0, found.back()) << "row " << i << " does not count";
      } else {
        rest[chunk.at(i, v)] = expected[chunk.at(i, v)];
      }
    }
  EXPECT_LT(relative_error(found, gradients), kGradientTolerance<S>);
  EXPECT_TRUE(same_bits(rest, expected)) << "something beside the logits was written";

  const auto again = run<S>(chunk, true);
  EXPECT_TRUE(same_bits(result.z, again.z));
  EXPECT_TRUE(same_bits(result.loss, again.loss));
  const auto forward = run<S>(chunk, false);
  EXPECT_TRUE(same_bits(forward.loss, result.loss));
  EXPECT_EQ(forward.correct, result.correct);
  EXPECT_TRUE(same_bits(forward.z, before)) << "logits changed though no gradient was asked for";
}

template <typename S>
class CudaCrossEntropy : public testing::Test {};
using Storages = testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(CudaCrossEntropy, Storages);

TYPED_TEST(CudaCrossEntropy, OfAnySize) {
  SKIP_WITHOUT_GPU();
  for (const int columns : {1, 2, 7, 8, 9, 31, 64, 257, 1000, 4096, 8184, 8192, 8200})
    check<TypeParam>(random_chunk(7, columns, columns, 0, columns % 2 == 0));
  // Columns: in registers; the most that are; too many for registers; unaligned.
  for (const int columns : {30528, 32768, 32776, 33001})
    check<TypeParam>(random_chunk(3, columns, columns, 0, true));
}

TYPED_TEST(CudaCrossEntropy, RowsOfAWiderMatrixAndScale) {
  SKIP_WITHOUT_GPU();
  for (const int64_t offset : {0, 8, 3})
    for (const int64_t extra : {8, 5}) {
      auto chunk = random_chunk(6, 1000, 1000 + extra, offset, true);
      chunk.scale = 0.37f;
      check<TypeParam>(chunk);
    }
}

TYPED_TEST(CudaCrossEntropy, TheFirstOfEqualLogitsWins) {
  SKIP_WITHOUT_GPU();
  for (const int columns : {5, 64, 5000, 30528}) {
    auto chunk = random_chunk(40, columns, columns, 0, false);
    for (auto& v : chunk.z) v = std::round(v / 4);
    // Half of the targets are where the largest is first, an eighth where it is last.
    for (int64_t i = 0; i < chunk.rows; ++i) {
      const auto begin = chunk.z.begin() + i * columns;
      auto& target = chunk.targets[static_cast<std::size_t>(i)];
      if (i % 2 == 0) target = std::max_element(begin, begin + columns) - begin;
      if (i % 8 == 1)
        target = columns - 1 -
                 (std::max_element(std::make_reverse_iterator(begin + columns),
                                   std::make_reverse_iterator(begin)) -
                  std::make_reverse_iterator(begin + columns));
    }
    check<TypeParam>(chunk);
  }
}

TYPED_TEST(CudaCrossEntropy, ExtremeLogits) {
  SKIP_WITHOUT_GPU();
  for (const double size : {1e4, 1e30, 1.5e38})
    for (const int columns : {3, 1000, 40000}) {
      auto chunk = random_chunk(4, columns, columns, 0, false);
      for (auto& v : chunk.z) v = v > 2 ? size : v < -2 ? -size : v;
      check<TypeParam>(chunk);
    }
  auto chunk = random_chunk(3, 1000, 1000, 0, true);
  for (int64_t i = 0; i < chunk.rows; ++i)
    for (int v = 0; v < chunk.columns; ++v)
      if (v % 3 != 0 && v != chunk.targets[static_cast<std::size_t>(i)])
        chunk.z[chunk.at(i, v)] = -INFINITY;
  check<TypeParam>(chunk);
}

TYPED_TEST(CudaCrossEntropy, RowsThatDoNotCountMayHoldAnything) {
  SKIP_WITHOUT_GPU();
  auto chunk = random_chunk(5, 1000, 1000, 0, true);
  for (int v = 0; v < 1000; ++v) chunk.z[chunk.at(3, v)] = v % 2 == 0 ? NAN : INFINITY;
  const auto result = run<TypeParam>(chunk, true);
  EXPECT_EQ(0, result.loss[3]);
  EXPECT_EQ(0, result.correct[3]);
  for (int v = 0; v < 1000; ++v) ASSERT_EQ(0, wide(result.z[chunk.at(3, v)]));
}

TYPED_TEST(CudaCrossEntropy, NoRows) {
  SKIP_WITHOUT_GPU();
  EXPECT_EQ(cudaSuccess, cross_entropy(CrossEntropyRows<TypeParam>{}, nullptr));
  EXPECT_EQ(cudaSuccess, add_column_sums<TypeParam>(0, 8, nullptr, 8, nullptr, nullptr, nullptr));
  EXPECT_EQ(cudaSuccess, add_loss_sums(0, nullptr, nullptr, nullptr, nullptr, nullptr));
}

template <typename S>
void check_column_sums(int64_t rows, int columns, int64_t row, int64_t offset, double tolerance) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", rows " << row << " apart, from "
                                  << offset << " on");
  const auto values = stored<S>(normal_values(offset + rows * row, 3));
  const auto old = stored<float>(normal_values(columns, 4));
  auto expected = widened(old);
  for (int64_t i = 0; i < rows; ++i)
    for (int v = 0; v < columns; ++v)
      expected[static_cast<std::size_t>(v)] +=
          wide(values[static_cast<std::size_t>(offset + i * row + v)]);
  const DeviceBuffer<S> on_device(values);
  std::vector<float> first;
  for (int run = 0; run < 2; ++run) {
    const DeviceBuffer<float> sums(old), workspace(column_sums_workspace(rows, columns));
    ASSERT_CUDA(add_column_sums(rows, columns, on_device.data() + offset, row, sums.data(),
                                workspace.data(), nullptr));
    const auto result = sums.host();
    EXPECT_LT(relative_error(widened(result), expected), tolerance);
    if (run == 0) first = result;
    EXPECT_TRUE(same_bits(first, result));
  }
}

TYPED_TEST(CudaCrossEntropy, ColumnSums) {
  SKIP_WITHOUT_GPU();
  for (const int64_t rows : {1, 7, 8, 33, 127, 128, 129, 300})
    for (const int columns : {1, 33, 256, 264, 1000})
      check_column_sums<TypeParam>(rows, columns, columns, 0, 2e-6);
  check_column_sums<TypeParam>(150, 264, 272, 8, 2e-6);
  check_column_sums<TypeParam>(150, 264, 269, 1, 2e-6);
  check_column_sums<TypeParam>(600000, 3, 3, 0, 1e-5);  // the largest number of parts
}

TEST(CudaCrossEntropyTargets, WithoutAColumnGiveNanAndReadNothing) {
  SKIP_WITHOUT_GPU();
  auto chunk = random_chunk(4, 64, 64, 0, true);
  chunk.targets = {63, 64, int64_t{1} << 40, 0};
  const auto loss = run<__nv_bfloat16>(chunk, true).loss;
  EXPECT_TRUE(std::isfinite(loss[0]) && std::isfinite(loss[3]));
  EXPECT_TRUE(std::isnan(loss[1]) && std::isnan(loss[2]));
}

TEST(CudaCrossEntropySums, LossAndCorrect) {
  SKIP_WITHOUT_GPU();
  for (const int64_t rows : {1, 31, 1024, 1025, 5000}) {
    const auto loss = stored<float>(normal_values(rows, 9));
    std::vector<uint8_t> correct;
    double expected = 0.5;
    int64_t hits = 40;
    for (int64_t i = 0; i < rows; ++i) {
      correct.push_back(i % 3 == 0);
      expected += 2 * static_cast<double>(loss[static_cast<std::size_t>(i)]);
      hits += 2 * correct.back();
    }
    const DeviceBuffer<float> on_device(loss);
    const DeviceBuffer<uint8_t> flags(correct);
    const DeviceBuffer<double> sum(std::vector<double>{0.5});
    const DeviceBuffer<int64_t> count(std::vector<int64_t>{40});
    for (int chunk = 0; chunk < 2; ++chunk)
      ASSERT_CUDA(
          add_loss_sums(rows, on_device.data(), flags.data(), sum.data(), count.data(), nullptr));
    EXPECT_NEAR(expected, sum.host()[0], 1e-10);
    EXPECT_EQ(hits, count.host()[0]);
  }
}

TEST(CudaCrossEntropySizes, TooManyRowsAreRefused) {
  CrossEntropyRows<float> p;
  p.rows = kMostTokens, p.columns = 4;
  EXPECT_EQ(cudaErrorInvalidValue, cross_entropy(p, nullptr));
}

}  // namespace
}  // namespace hydramix::cuda
