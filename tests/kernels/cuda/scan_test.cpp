// SPDX-License-Identifier: Apache-2.0
// The scan's kernels against the formula, entry by entry, in float64.
#include "kernels/cuda/scan.h"

#include <algorithm>

#include "kernels/cuda/limits.h"
#include "support/scan_isolation.h"
#include "support/scan_on_device.h"

namespace hydramix::cuda {
namespace {

using B16 = __nv_bfloat16;

using Problem = ScanProblem;
using Values = ScanValues;
using Results = ScanResults;
using Outcome = ScanOutcome;

// Whether the largest of the sizes below fits; a smaller GPU takes the general kernels.
bool fits() { return scan_fits(shape_of({.H = 1, .N = 128}), /*gradients=*/true); }

#define SKIP_WITHOUT_TENSOR_CORES() \
  SKIP_WITHOUT_GPU();               \
  if (!fits()) GTEST_SKIP() << "this GPU's shared memory is too small for these kernels"

struct TensorCoreKernels {
  static constexpr auto saved_bytes = scan_saved_bytes;
  static constexpr auto forward_bytes = scan_forward_bytes;
  static constexpr auto backward_bytes = scan_backward_bytes;
  static cudaError_t forward(const ScanForward<B16>& p, const ScanLayout& layout,
                             const ScanMemory& memory) {
    return scan_forward(p, layout, memory, nullptr);
  }
  static cudaError_t backward(const ScanBackward<B16>& p, const ScanLayout& layout,
                              const ScanMemory& memory) {
    return scan_backward(p, layout, memory, nullptr);
  }
};

Outcome on_device(const Problem& p, const Values& v) {
  EXPECT_TRUE(scan_fits(shape_of(p), /*gradients=*/true));
  // 16 bytes are unused after each row.
  return scan_on_device<TensorCoreKernels, B16, B16>(p, v, {0, p.H * p.P + 4 * p.G * p.N + 8});
}

void expect_close(const Problem& p, const char* what, double factor = 1) {
  SCOPED_TRACE(what);
  const Values v = Values::of<B16>(p);
  const Outcome run = on_device(p, v);
  const Results want = scan_reference(p, v);
  const Results& got = run.results;
  // Rounding to 8 bits: 2^-9 once for the output, and about as much for each operand of a product.
  const double tolerance = 6e-3 * factor;
  EXPECT_LT(relative_error(got.y, want.y), tolerance) << "y";
  EXPECT_LT(relative_error(got.dx, want.dx), tolerance) << "dx";
  EXPECT_LT(relative_error(got.ddelta, want.ddelta), tolerance) << "ddelta";
  EXPECT_LT(relative_error(got.ddiagonal, want.ddiagonal), tolerance) << "ddiagonal";
  if (*std::max_element(p.lengths.begin(), p.lengths.end()) > p.shift) {
    for (const int d : {0, 1}) {
      if (!p.on[d]) continue;
      EXPECT_LT(relative_error(got.db[d], want.db[d]), 1.5 * tolerance) << "db " << d;
      EXPECT_LT(relative_error(got.dc[d], want.dc[d]), 1.5 * tolerance) << "dc " << d;
      EXPECT_LT(relative_error(got.ddt[d], want.ddt[d]), 2 * tolerance) << "ddt " << d;
    }
    // A few numbers, each a sum of many of either sign.
    EXPECT_LT(relative_error(got.dA, want.dA), 8 * tolerance) << "dA";
    EXPECT_LT(relative_error(got.ddt_bias, want.ddt_bias), 8 * tolerance) << "ddt_bias";
  }
  EXPECT_EQ(run.bits, on_device(p, v).bits) << "another run gave other bits";
}

TEST(CudaScan, OneTile) {
  SKIP_WITHOUT_TENSOR_CORES();
  for (const int64_t L : {1, 2, 3, 15, 16, 17, 64, 127, 128})
    expect_close({.lengths = {L}}, std::to_string(L).c_str());
}

TEST(CudaScan, Tiles) {
  SKIP_WITHOUT_TENSOR_CORES();
  for (const int64_t L : {129, 255, 256, 257, 384, 509, 1021})
    expect_close({.lengths = {L}}, std::to_string(L).c_str());
}

TEST(CudaScan, Sequences) {
  SKIP_WITHOUT_TENSOR_CORES();
  expect_close({.lengths = {128, 128, 128}}, "whole tiles");
  expect_close({.lengths = {1, 1, 2, 1, 3}}, "tiny");
  expect_close({.lengths = {17, 40, 64, 100, 30, 128, 5}}, "short");
  expect_close({.lengths = {196, 196, 196}}, "a tile and a half");
  expect_close({.lengths = {3, 300, 1, 129, 700, 2, 60}}, "all kinds");
  expect_close({.lengths = std::vector<int64_t>(40, 8)}, "many in a tile");
}

TEST(CudaScan, Segments) {
  SKIP_WITHOUT_TENSOR_CORES();
  // Slow decay, so that much is carried.
  for (const int segment : {1, 2, 3})
    expect_close({.lengths = {900, 100, 513}, .dt_mean = -5, .A_low = 0.05, .segment = segment},
                 std::to_string(segment).c_str());
}

// A table for any layout has more tiles than there are tokens for.
TEST(CudaScan, EmptyTiles) {
  SKIP_WITHOUT_TENSOR_CORES();
  for (const int segment : {0, 1, 2})
    expect_close({.lengths = {300, 20, 200},
                  .dt_mean = -5,
                  .A_low = 0.05,
                  .segment = segment,
                  .empty_tiles = 5},
                 std::to_string(segment).c_str());
}

// (P, N)
class CudaScanSizes : public ::testing::TestWithParam<std::tuple<int, int>> {};
TEST_P(CudaScanSizes, AreThatOfTheLoop) {
  SKIP_WITHOUT_GPU();
  const auto [P, N] = GetParam();
  if (!scan_fits(shape_of({.H = 2, .P = P, .N = N}), /*gradients=*/true))
    GTEST_SKIP() << "this GPU's shared memory is too small for these kernels";
  expect_close({.lengths = {150, 77}, .H = 2, .P = P, .N = N},
               ("P " + std::to_string(P) + " N " + std::to_string(N)).c_str());
}
INSTANTIATE_TEST_SUITE_P(CudaScan, CudaScanSizes,
                         ::testing::Combine(::testing::Values(32, 64, 96, 128),
                                            ::testing::Values(16, 32, 64, 128)));

TEST(CudaScan, Groups) {
  SKIP_WITHOUT_TENSOR_CORES();
  expect_close({.lengths = {150, 77}, .H = 6, .P = 32, .G = 3, .N = 32}, "three groups");
  expect_close({.lengths = {100}, .H = 4, .P = 64, .G = 4}, "a group a head");
  expect_close({.lengths = {300}, .H = 24, .P = 32, .G = 1}, "one group");
}

TEST(CudaScan, OneDirection) {
  SKIP_WITHOUT_TENSOR_CORES();
  for (const int shift : {0, 1})
    for (const int d : {0, 1}) {
      Problem p{.lengths = {90, 200, 128}, .shift = shift};
      p.on[1 - d] = false;
      expect_close(p, ("shift " + std::to_string(shift) + " d " + std::to_string(d)).c_str());
    }
}

TEST(CudaScan, ExtremeSteps) {
  SKIP_WITHOUT_TENSOR_CORES();
  expect_close({.lengths = {200, 60}, .dt_mean = -30, .dt_spread = 3}, "steps of almost nothing");
  expect_close({.lengths = {200, 60}, .dt_mean = 6, .dt_spread = 3, .A_high = 50}, "no memory", 2);
  expect_close({.lengths = {200, 60}, .dt_spread = 6, .A_low = 1e-3, .A_high = 100}, "both", 2);
  expect_close({.lengths = {200, 60}, .dt_low = 0.05, .dt_high = 0.3}, "limits");
  const Problem p{.lengths = {300}, .dt_mean = -2000};
  for (const double y : on_device(p, Values::of<B16>(p)).results.ddt[0]) EXPECT_EQ(y, 0);
}

// Sequences that share tiles, that begin and end in the middle of tiles, and that fill some.
TEST(CudaScan, WhatIsNotFiniteStaysInItsSequence) {
  SKIP_WITHOUT_TENSOR_CORES();
  const auto expect = [](const Problem& p, const char* what) {
    SCOPED_TRACE(what);
    expect_isolation<B16>(p, [&](const Values& v) { return on_device(p, v).results; });
  };
  expect({.lengths = {30, 1, 50, 17, 40, 100, 2}}, "short");
  expect({.lengths = {60, 200, 5, 300, 70}, .dt_mean = -5, .A_low = 0.05}, "with states");
  expect({.lengths = {60, 900, 150}, .dt_mean = -5, .A_low = 0.05, .segment = 2}, "with carries");
  expect({.lengths = {40, 150, 20}, .dt_mean = 4, .dt_spread = 2, .A_high = 50}, "no memory");
  expect({.lengths = {30, 170, 20}, .H = 4, .P = 96, .G = 2, .N = 128}, "large");
  expect({.lengths = {40, 150, 20}, .P = 32, .N = 16, .dt_low = 0.05, .dt_high = 0.3}, "limits");
  Problem one{.lengths = {40, 150, 20}, .shift = 0};
  one.on[1] = false;
  expect(one, "one direction, no shift");
}

// Long ones against the recurrence, and the transposed against the product: <dx, x> = <dy, y>.
TEST(CudaScan, AMillionTokens) {
  SKIP_WITHOUT_TENSOR_CORES();
  const Problem p{.lengths = {1000000}, .H = 1, .P = 32, .N = 16, .dt_mean = -7, .A_low = 0.1};
  const Values v = Values::of<B16>(p);
  const Outcome run = on_device(p, v);
  const auto y = recurrence_of_one_head(p, v);
  EXPECT_LT(relative_error(run.results.y, y), 6e-3);
  EXPECT_LT(adjoint_error(v, y, run.results.dx), 1e-3);
}

// Bytes of shared memory that a block may have at most.
constexpr int kOnHopper = 227 << 10, kOnA100 = 163 << 10, kOnSmall = 99 << 10;

TEST(CudaScanFits, InferenceNeedsLessThanTraining) {
  const auto fits = [](int P, int N, bool gradients, int bytes) {
    return scan_fits(shape_of({.P = P, .N = N}), gradients, bytes);
  };
  for (const int N : {16, 32, 64, 128})
    for (const int P : {32, 64, 96, 128})
      for (const bool gradients : {false, true})
        EXPECT_TRUE(fits(P, N, gradients, kOnHopper)) << P << " x " << N;
  EXPECT_TRUE(fits(64, 64, /*gradients=*/false, kOnA100));
  EXPECT_FALSE(fits(64, 64, /*gradients=*/true, kOnA100));
  EXPECT_TRUE(fits(64, 32, /*gradients=*/true, kOnA100));
  EXPECT_TRUE(fits(64, 32, /*gradients=*/false, kOnSmall));
  EXPECT_FALSE(fits(64, 32, /*gradients=*/true, kOnSmall));
  EXPECT_FALSE(fits(64, 64, /*gradients=*/false, kOnSmall));
  EXPECT_FALSE(fits(64, 48, /*gradients=*/false, kOnHopper)) << "no such state";
}

TEST(CudaScanFits, TheLimitOfTheDeviceCanBeLowered) {
  SKIP_WITHOUT_TENSOR_CORES();
  const ScanShape shape = shape_of({});
  EXPECT_TRUE(scan_fits(shape, /*gradients=*/true));
  limit_shared_memory(kOnA100);
  EXPECT_TRUE(scan_fits(shape, /*gradients=*/false));
  EXPECT_FALSE(scan_fits(shape, /*gradients=*/true));
  limit_shared_memory(kOnHopper);
  EXPECT_TRUE(scan_fits(shape, /*gradients=*/true));
}

TEST(CudaScanFits, TooManyTokensAreRefused) {
  ScanLayout layout{};
  layout.n = kMostTokens;
  EXPECT_EQ(cudaErrorInvalidValue,
            scan_forward({shape_of({}), {}, {}}, layout, {nullptr, nullptr}, nullptr));
  EXPECT_EQ(cudaErrorInvalidValue,
            scan_backward({shape_of({}), {}, {}, {}}, layout, {nullptr, nullptr}, nullptr));
}

}  // namespace
}  // namespace hydramix::cuda
