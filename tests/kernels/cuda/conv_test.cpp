// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/conv.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cuda/limits.h"
#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

using BFloat16 = __nv_bfloat16;

// Columns [first, first + C) of a matrix with `row` columns.
struct Columns {
  int64_t first, row;
};

struct Case {
  std::vector<int> lengths;  // of the sequences
  int64_t C, K, centre, silu;
  Columns x, y, dy, dx;
  bool bias = true;
  double size = 1;  // of inputs
};

ConvShape shape_of(const Case& c) {
  const int64_t n = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0});
  return {n, c.C, c.K, c.centre, c.silu};
}

std::vector<int2> bounds_of(const std::vector<int>& lengths) {
  std::vector<int2> bounds;
  int first = 0;
  for (const int length : lengths) {
    bounds.insert(bounds.end(), static_cast<std::size_t>(length), int2{first, first + length});
    first += length;
  }
  return bounds;
}

struct Inputs {
  std::vector<double> x, weight, bias, dy;  // (n, C), (C, K), (C), (n, C)
};
struct Outputs {
  std::vector<double> y, dx, dweight, dbias;
};

template <typename S>
Inputs inputs_of(const Case& c) {
  const auto s = shape_of(c);
  const auto rounded = [&](int64_t count, uint64_t seed, double size) {
    return widened(stored<S>(normal_values(count, seed, size)));
  };
  return {rounded(s.n * s.C, 1, c.size), widened(stored<float>(normal_values(s.C * s.K, 2, 0.5))),
          widened(stored<float>(normal_values(s.C, 3, 0.5))), rounded(s.n * s.C, 4, c.size)};
}

// The formula and its derivative, tap by tap.
Outputs expected(const Case& c, const Inputs& in) {
  const auto s = shape_of(c);
  const auto bounds = bounds_of(c.lengths);
  Outputs out{std::vector<double>(in.x.size()), std::vector<double>(in.x.size()),
              std::vector<double>(in.weight.size()), std::vector<double>(in.bias.size())};
  for (int64_t t = 0; t < s.n; ++t)
    for (int64_t channel = 0; channel < s.C; ++channel) {
      const auto inside = [&](int64_t k) {
        return t + k - s.centre >= bounds[t].x && t + k - s.centre < bounds[t].y;
      };
      const auto at = [&](int64_t k) { return (t + k - s.centre) * s.C + channel; };
      double u = c.bias ? in.bias[channel] : 0;
      for (int64_t k = 0; k < s.K; ++k)
        if (inside(k)) u += in.weight[channel * s.K + k] * in.x[at(k)];
      const double sigmoid = 1 / (1 + std::exp(-u));
      const bool silu = channel < s.silu;
      out.y[t * s.C + channel] = silu ? u * sigmoid : u;
      const double g = in.dy[t * s.C + channel] * (silu ? sigmoid * (1 + u * (1 - sigmoid)) : 1.0);
      out.dbias[channel] += g;
      for (int64_t k = 0; k < s.K; ++k)
        if (inside(k)) {
          out.dweight[channel * s.K + k] += g * in.x[at(k)];
          out.dx[at(k)] += g * in.weight[channel * s.K + k];
        }
    }
  return out;
}

// A matrix of `rows` rows whose other columns are NaN.
template <typename S>
std::vector<S> spread(const std::vector<double>& values, int64_t rows, int64_t C, Columns at) {
  std::vector<S> wide(static_cast<std::size_t>(rows * at.row), S(NAN));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t channel = 0; channel < C; ++channel)
      wide[r * at.row + at.first + channel] = S(static_cast<float>(values[r * C + channel]));
  return wide;
}

// Those columns of an output; the others must have the bits DeviceBuffer gave them.
template <typename S>
std::vector<double> gathered(const std::vector<S>& wide, int64_t rows, int64_t C, Columns at) {
  std::vector<double> values;
  int64_t touched = 0;
  for (int64_t i = 0; i < rows * at.row; ++i) {
    const int64_t column = i % at.row - at.first;
    if (column >= 0 && column < C) {
      values.push_back(hydramix::cuda::wide(wide[i]));
      continue;
    }
    unsigned char bytes[sizeof(S)];
    std::memcpy(bytes, &wide[i], sizeof(S));
    touched += std::any_of(bytes, bytes + sizeof(S), [](unsigned char b) { return b != 0xff; });
  }
  EXPECT_EQ(0, touched) << "values beside the output's columns were written";
  return values;
}

template <typename S>
void run(const Case& c, const Inputs& in, Outputs& out) {
  const auto s = shape_of(c);
  const DeviceBuffer<int2> bounds(bounds_of(c.lengths));
  const DeviceBuffer<S> x(spread<S>(in.x, s.n, s.C, c.x)), dy(spread<S>(in.dy, s.n, s.C, c.dy));
  const DeviceBuffer<float> weight(stored<float>(in.weight)), bias(stored<float>(in.bias));
  const DeviceBuffer<S> y(s.n * c.y.row), dx(s.n * c.dx.row);
  const DeviceBuffer<float> dweight(s.C * s.K), dbias(s.C), workspace(conv_backward_workspace(s));
  const float* b = c.bias ? bias.data() : nullptr;
  const ConvForward<S> forward{
      s, {x.data() + c.x.first, c.x.row}, weight.data(), b, {y.data() + c.y.first, c.y.row}};
  const ConvBackward<S> backward{s,
                                 {x.data() + c.x.first, c.x.row},
                                 weight.data(),
                                 b,
                                 {dy.data() + c.dy.first, c.dy.row},
                                 {dx.data() + c.dx.first, c.dx.row},
                                 workspace.data(),
                                 dweight.data(),
                                 c.bias ? dbias.data() : nullptr};
  ASSERT_CUDA(conv_forward<S>(forward, bounds.data(), nullptr));
  ASSERT_CUDA(conv_backward<S>(backward, bounds.data(), nullptr));
  out.y = gathered(y.host(), s.n, s.C, c.y);
  out.dx = gathered(dx.host(), s.n, s.C, c.dx);
  out.dweight = widened(dweight.host());
  out.dbias = c.bias ? widened(dbias.host()) : std::vector<double>();
}

// Outputs in S are wrong by its rounding: at most 2^-9 of bfloat16, 2^-24 of float, besides the
// sums in float32 of K + 1 products (2^-24 each) and SiLU (some 2^-22). The gradients of weight and
// bias are float32 whatever S is; their sums have up to some thousand terms, in which errors of
// 2^-24 of what has been summed so far add up like a random walk.
template <typename S>
void check(const Case& c) {
  const auto s = shape_of(c);
  SCOPED_TRACE(testing::Message() << s.n << " tokens, C " << s.C << ", K " << s.K << ", centre "
                                  << s.centre << ", silu " << s.silu << ", rows " << c.x.row
                                  << ", bytes " << sizeof(S));
  const auto in = inputs_of<S>(c);
  const auto want = expected(c, in);
  Outputs first, second;
  run<S>(c, in, first);
  run<S>(c, in, second);
  if (testing::Test::HasFatalFailure()) return;
  const double rounding = sizeof(S) == 2 ? 4e-3 : 2e-6;
  EXPECT_LT(relative_error(first.y, want.y), rounding);
  EXPECT_LT(relative_error(first.dx, want.dx), rounding);
  EXPECT_LT(relative_error(first.dweight, want.dweight), 3e-6);
  if (c.bias) {
    EXPECT_LT(relative_error(first.dbias, want.dbias), 3e-6);
  }
  EXPECT_EQ(first.y, second.y);
  EXPECT_EQ(first.dx, second.dx);
  EXPECT_EQ(first.dweight, second.dweight);
  EXPECT_EQ(first.dbias, second.dbias);
}

template <typename S>
class Conv : public testing::Test {};
using Storages = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(Conv, Storages);

Case packed(std::vector<int> lengths, int64_t C, int64_t K, int64_t centre, int64_t silu) {
  return {std::move(lengths), C, K, centre, silu, {0, C}, {0, C}, {0, C}, {0, C}};
}

// Every width with a kernel of its own, every centre, and one beyond; sequences shorter than the
// window, of one token, and longer than a run.
TYPED_TEST(Conv, AnyWidthAndCentre) {
  SKIP_WITHOUT_GPU();
  for (const int64_t K : {1, 2, 3, 4, 5, 6, 7, 8, 9})
    for (int64_t centre = 0; centre < K; ++centre)
      check<TypeParam>(packed({40, 1, 2, 1, 3, 5, 150, 7, 13}, 16, K, centre, 8));
}

TYPED_TEST(Conv, WindowsWiderThanSequences) {
  SKIP_WITHOUT_GPU();
  check<TypeParam>(packed({1}, 8, 7, 3, 8));
  check<TypeParam>(packed({2}, 8, 4, 3, 0));
  check<TypeParam>(packed(std::vector<int>(97, 1), 8, 7, 3, 8));
  check<TypeParam>(packed({5, 4, 300}, 24, 31, 15, 24));
  check<TypeParam>(packed({3}, 5, 100, 99, 2));
}

// Values that are not finite affect their own sequence only: the others keep their bits.
TYPED_TEST(Conv, WhatIsNotFiniteStaysInItsSequence) {
  SKIP_WITHOUT_GPU();
  for (const int64_t K : {4, 7, 9}) {
    const Case c = packed({40, 1, 3, 150, 2, 13}, 16, K, K / 2, 8);
    const auto good = inputs_of<TypeParam>(c);
    Outputs expected, got;
    run<TypeParam>(c, good, expected);
    int64_t begin = 0;
    for (const int length : c.lengths) {
      const int64_t end = begin + length;
      for (const bool of_x : {true, false})
        for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
          auto in = good;
          auto& values = of_x ? in.x : in.dy;
          std::fill(values.begin() + begin * c.C, values.begin() + end * c.C, bad);
          run<TypeParam>(c, in, got);
          for (int64_t i = 0; i < static_cast<int64_t>(got.y.size()); ++i) {
            if (i >= begin * c.C && i < end * c.C) continue;
            ASSERT_EQ(got.y[i], expected.y[i]) << "token " << i / c.C << ", width " << K;
            ASSERT_EQ(got.dx[i], expected.dx[i]) << "token " << i / c.C << ", width " << K;
          }
        }
      begin = end;
    }
  }
}

// Numbers of tokens around a batch of steps, a run and a block of runs.
TYPED_TEST(Conv, AnyNumberOfTokens) {
  SKIP_WITHOUT_GPU();
  for (const int n : {6, 7, 8, 13, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 1021})
    check<TypeParam>(packed({n}, 8, 7, 3, 8));
}

// A border between sequences at every place of a run and of its batches of steps.
TYPED_TEST(Conv, BordersAnywhere) {
  SKIP_WITHOUT_GPU();
  for (const int64_t K : {3, 7})
    for (int before = 90; before < 120; ++before)
      check<TypeParam>(packed({before, 300 - before}, 8, K, K / 2, 8));
}

// Channels that fill no warp, no 16 bytes, and several blocks.
TYPED_TEST(Conv, AnyNumberOfChannels) {
  SKIP_WITHOUT_GPU();
  for (const int64_t C : {1, 2, 3, 7, 8, 31, 33, 128, 136, 257, 264, 520})
    for (const int64_t silu : {int64_t{0}, C / 2, C})
      check<TypeParam>(packed({33, 50}, C, 7, 3, silu));
}

// Columns of wider matrices, aligned to 16 bytes and not; without bias.
TYPED_TEST(Conv, ColumnsOfWiderMatrices) {
  SKIP_WITHOUT_GPU();
  const std::vector<int> lengths{128, 60, 3, 128};
  for (const bool bias : {true, false}) {
    check<TypeParam>({lengths, 64, 7, 3, 64, {16, 96}, {8, 80}, {0, 72}, {24, 104}, bias});
    check<TypeParam>({lengths, 64, 7, 3, 64, {1, 96}, {8, 80}, {0, 72}, {24, 104}, bias});
    check<TypeParam>({lengths, 64, 7, 3, 64, {16, 96}, {8, 80}, {0, 72}, {4, 101}, bias});
    check<TypeParam>({lengths, 61, 4, 3, 59, {3, 67}, {5, 71}, {7, 73}, {2, 79}, bias});
  }
}

// As many blocks as there are at once, runs of some length.
TYPED_TEST(Conv, ManyTokens) {
  SKIP_WITHOUT_GPU();
  check<TypeParam>(
      {std::vector<int>(25, 128), 520, 7, 3, 520, {8, 560}, {0, 520}, {0, 520}, {8, 560}});
  check<TypeParam>(packed({9001}, 136, 4, 3, 136));
}

// Far out SiLU is 0 or the identity, and its derivative 0 or 1.
TYPED_TEST(Conv, LargeInputs) {
  SKIP_WITHOUT_GPU();
  auto c = packed({50, 20}, 16, 7, 3, 16);
  for (const double size : {100.0, 1e4, 1e9, 1e15}) {
    c.size = size;
    check<TypeParam>(c);
  }
}

// Values of other sequences are not even multiplied by zero.
TYPED_TEST(Conv, InfinitiesStayInTheirSequence) {
  SKIP_WITHOUT_GPU();
  for (const int64_t K : {7, 9}) {
    const auto c = packed({20, 30, 40}, 8, K, 3, 0);
    auto in = inputs_of<TypeParam>(c);
    const auto want = expected(c, in);
    for (int64_t i = 20 * 8; i < 50 * 8; ++i) in.x[i] = INFINITY, in.dy[i] = NAN;
    Outputs out;
    run<TypeParam>(c, in, out);
    for (int64_t i = 0; i < 90 * 8; ++i) {
      if (i >= 20 * 8 && i < 50 * 8) continue;
      EXPECT_NEAR(out.y[i], want.y[i], 0.01 * (1 + std::abs(want.y[i]))) << i;
      EXPECT_NEAR(out.dx[i], want.dx[i], 0.01 * (1 + std::abs(want.dx[i]))) << i;
    }
  }
}

TYPED_TEST(Conv, NoTokensGiveNoGradient) {
  SKIP_WITHOUT_GPU();
  using S = TypeParam;
  const ConvShape shape{0, 3, 4, 3, 3};
  const DeviceBuffer<float> dweight(12), dbias(3);
  const ConvForward<S> forward{.shape = shape, .x = {}, .y = {}};
  ConvBackward<S> backward{.shape = shape, .x = {}, .dy = {}, .dx = {}};
  backward.dweight = dweight.data(), backward.dbias = dbias.data();
  ASSERT_CUDA(conv_forward<S>(forward, nullptr, nullptr));
  ASSERT_CUDA(conv_backward<S>(backward, nullptr, nullptr));
  EXPECT_EQ(std::vector<float>(12, 0.0f), dweight.host());
  EXPECT_EQ(std::vector<float>(3, 0.0f), dbias.host());
}

// Rows so far apart that the last is more than 2^31 values after the first.
TEST(ConvShapes, LargeDistances) {
  SKIP_WITHOUT_GPU();
  using S = BFloat16;
  const Case near = packed({200, 100}, 16, 7, 3, 16);
  const auto shape = shape_of(near);
  const int64_t far = int64_t{1} << 23;
  const std::size_t bytes = static_cast<std::size_t>(shape.n * far) * sizeof(S);
  std::size_t free = 0, all = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free, &all));
  if (free < 2 * bytes + (std::size_t{1} << 30)) GTEST_SKIP() << "needs 11 GB of device memory";
  const auto in = inputs_of<S>(near);
  Outputs expected;
  run<S>(near, in, expected);

  void *x = nullptr, *y = nullptr;
  ASSERT_CUDA(cudaMalloc(&x, bytes));
  ASSERT_CUDA(cudaMalloc(&y, bytes));
  const auto host = stored<S>(in.x);
  const std::size_t width = 16 * sizeof(S), pitch = static_cast<std::size_t>(far) * sizeof(S);
  const auto rows = static_cast<std::size_t>(shape.n);
  ASSERT_CUDA(cudaMemcpy2D(x, pitch, host.data(), width, width, rows, cudaMemcpyHostToDevice));
  const DeviceBuffer<int2> bounds(bounds_of(near.lengths));
  const DeviceBuffer<float> weight(stored<float>(in.weight)), bias(stored<float>(in.bias));
  const ConvForward<S> p{
      shape, {static_cast<S*>(x), far}, weight.data(), bias.data(), {static_cast<S*>(y), far}};
  ASSERT_CUDA(conv_forward<S>(p, bounds.data(), nullptr));
  std::vector<S> got(host.size());
  ASSERT_CUDA(cudaMemcpy2D(got.data(), width, y, pitch, width, rows, cudaMemcpyDeviceToHost));
  EXPECT_EQ(widened(got), expected.y);
  ASSERT_CUDA(cudaFree(x));
  ASSERT_CUDA(cudaFree(y));
}

TEST(ConvShapes, WrongOnesAreRefused) {
  for (const ConvShape shape :
       {ConvShape{1, 1, 0, 0, 0}, ConvShape{1, 1, 3, 3, 0}, ConvShape{1, 1, 3, -1, 0},
        ConvShape{1, 1, 3, 1, 2}, ConvShape{-1, 1, 3, 1, 1}, ConvShape{kMostTokens, 1, 3, 1, 1}})
    EXPECT_EQ(cudaErrorInvalidValue,
              conv_forward<float>({.shape = shape, .x = {}, .y = {}}, nullptr, nullptr));
}

}  // namespace
}  // namespace hydramix::cuda
