// SPDX-License-Identifier: Apache-2.0
// The plain scan's kernels against the formula, entry by entry, in float64.
#include "kernels/cuda/plain_scan.h"

#include <string>

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

template <typename S>
struct PlainKernels {
  static constexpr auto saved_bytes = plain_scan_saved_bytes;
  static constexpr auto forward_bytes = plain_scan_forward_bytes;
  static constexpr auto backward_bytes = plain_scan_backward_bytes;
  static cudaError_t forward(const ScanForward<S>& p, const ScanLayout& layout,
                             const ScanMemory& memory) {
    return plain_scan_forward<S>(p, layout, memory, nullptr);
  }
  static cudaError_t backward(const ScanBackward<S>& p, const ScanLayout& layout,
                              const ScanMemory& memory) {
    return plain_scan_backward<S>(p, layout, memory, nullptr);
  }
};

// T is the type of dt and delta. Rows have an odd length, and their first column is unused.
template <typename S, typename T = S>
Outcome on_device(const Problem& p, const Values& v) {
  return scan_on_device<PlainKernels<S>, S, T>(p, v, {1, (p.H * p.P + 4 * p.G * p.N + 1) | 1});
}

template <typename S, typename T = S>
void expect_close_in(const Problem& p) {
  SCOPED_TRACE(sizeof(S) == 4 ? "float" : "bfloat16");
  const Values v = Values::of<S>(p);
  const Outcome run = on_device<S, T>(p, v);
  const Results want = scan_reference(p, v);
  const Results& got = run.results;
  // Float: 2^-24 for each of the three factors of an entry, and sums of a few hundred terms.
  // Bfloat16: inputs are exact and sums are float, so half a unit of 8 bits, 2^-8 at most, for the
  // output.
  const double floats = 2e-6, half_unit = 4e-3;
  const double tolerance = sizeof(S) == 4 ? floats : half_unit;
  const double steps = sizeof(T) == 4 ? floats : half_unit;
  EXPECT_LT(relative_error(got.y, want.y), tolerance) << "y";
  EXPECT_LT(relative_error(got.dx, want.dx), tolerance) << "dx";
  EXPECT_LT(relative_error(got.ddelta, want.ddelta), steps) << "ddelta";
  for (const int d : {0, 1}) {
    if (!p.on[d]) continue;
    EXPECT_LT(relative_error(got.db[d], want.db[d]), tolerance) << "db " << d;
    EXPECT_LT(relative_error(got.dc[d], want.dc[d]), tolerance) << "dc " << d;
    EXPECT_LT(relative_error(got.ddt[d], want.ddt[d]), steps) << "ddt " << d;
  }
  // A few numbers, each a sum of many of either sign.
  EXPECT_LT(relative_error(got.dA, want.dA), 10 * floats) << "dA";
  EXPECT_LT(relative_error(got.ddt_bias, want.ddt_bias), 10 * floats) << "ddt_bias";
  EXPECT_LT(relative_error(got.ddiagonal, want.ddiagonal), 10 * floats) << "ddiagonal";
  EXPECT_EQ(run.bits, (on_device<S, T>(p, v).bits)) << "another run gave other bits";
}

void expect_close(const Problem& p, const std::string& what) {
  SCOPED_TRACE(what);
  expect_close_in<float>(p);
  expect_close_in<B16>(p);
}

TEST(CudaPlainScan, OneTile) {
  SKIP_WITHOUT_GPU();
  for (const int64_t L : {1, 2, 3, 16, 63, 64, 65, 127, 128})
    expect_close({.lengths = {L}, .P = 24, .N = 20}, std::to_string(L));
}

TEST(CudaPlainScan, Tiles) {
  SKIP_WITHOUT_GPU();
  for (const int64_t L : {129, 191, 193, 256, 257, 509})
    expect_close({.lengths = {L}, .P = 24, .N = 20}, std::to_string(L));
}

TEST(CudaPlainScan, Sequences) {
  SKIP_WITHOUT_GPU();
  const auto with = [](std::vector<int64_t> lengths, const char* what) {
    for (const int shift : {0, 1})
      expect_close({.lengths = lengths, .P = 12, .N = 17, .shift = shift},
                   what + (" shift " + std::to_string(shift)));
  };
  with({128, 128, 128}, "whole tiles");
  with({1, 1, 2, 1, 3}, "tiny");
  with({17, 40, 64, 100, 30, 128, 5}, "short");
  with({196, 196, 196}, "a tile and a half");
  with({3, 300, 1, 129, 400, 2, 60}, "all kinds");
  with(std::vector<int64_t>(300, 1), "single tokens");
}

// A table for any layout has more tiles than there are tokens for.
TEST(CudaPlainScan, EmptyTiles) {
  SKIP_WITHOUT_GPU();
  expect_close({.lengths = {300}, .dt_mean = -5, .A_low = 0.05, .empty_tiles = 3}, "one");
  expect_close({.lengths = {300, 20, 200}, .empty_tiles = 5}, "several");
}

TEST(CudaPlainScan, Sizes) {
  SKIP_WITHOUT_GPU();
  for (const int P : {1, 3, 24, 64, 100})
    for (const int N : {1, 5, 16, 48, 200})
      expect_close({.lengths = {150, 37}, .P = P, .N = N},
                   "P " + std::to_string(P) + " N " + std::to_string(N));
  expect_close({.lengths = {140}, .H = 1, .P = 130, .N = 384}, "large");
}

TEST(CudaPlainScan, Groups) {
  SKIP_WITHOUT_GPU();
  expect_close({.lengths = {150, 77}, .H = 6, .P = 9, .G = 3, .N = 10}, "three groups");
  expect_close({.lengths = {200}, .H = 4, .P = 16, .G = 4, .N = 70}, "a group a head");
  expect_close({.lengths = {300}, .H = 24, .P = 8, .N = 8}, "one group");
  // Enough tiles that a block takes several heads.
  expect_close({.lengths = std::vector<int64_t>(40, 130), .H = 5, .P = 2, .N = 3}, "runs of heads");
}

TEST(CudaPlainScan, Directions) {
  SKIP_WITHOUT_GPU();
  for (const int shift : {0, 1})
    for (const int which : {1, 2, 3}) {
      Problem p{.lengths = {90, 200, 128}, .P = 20, .N = 70, .shift = shift};
      p.on[0] = which & 1;
      p.on[1] = which & 2;
      expect_close(p, "shift " + std::to_string(shift) + " of " + std::to_string(which));
    }
}

TEST(CudaPlainScan, Types) {
  SKIP_WITHOUT_GPU();
  const Problem p{.lengths = {200}, .P = 20, .N = 20};
  expect_close_in<B16, float>(p);
}

TEST(CudaPlainScan, ExtremeSteps) {
  SKIP_WITHOUT_GPU();
  const Problem usual{.lengths = {400, 60}, .P = 16, .N = 16};
  const auto with = [&](const char* what, const auto& change) {
    Problem p = usual;
    change(p);
    expect_close(p, what);
  };
  with("long memory", [](Problem& p) { p.dt_mean = -7, p.A_low = 0.01, p.A_high = 1; });
  with("steps of almost nothing", [](Problem& p) { p.dt_mean = -30, p.dt_spread = 3; });
  with("no memory", [](Problem& p) { p.dt_mean = 6, p.dt_spread = 3, p.A_high = 50; });
  with("both", [](Problem& p) { p.dt_spread = 6, p.A_low = 1e-3, p.A_high = 100; });
  with("some forget all", [](Problem& p) { p.dt_spread = 5, p.A_low = 1, p.A_high = 1e6; });
  with("limits", [](Problem& p) { p.dt_low = 0.05, p.dt_high = 0.3; });
  Problem none = usual;
  none.dt_mean = -2000;
  for (const double ddt : on_device<float>(none, Values::of<float>(none)).results.ddt[0])
    EXPECT_EQ(ddt, 0);
}

TEST(CudaPlainScan, WhatIsNotFiniteStaysInItsSequence) {
  SKIP_WITHOUT_GPU();
  const auto expect = [](const Problem& p, const char* what) {
    SCOPED_TRACE(what);
    expect_isolation<float>(p, [&](const Values& v) { return on_device<float>(p, v).results; });
  };
  for (const int shift : {0, 1}) {
    expect({.lengths = {30, 1, 50, 17, 40, 100, 2}, .P = 7, .N = 5, .shift = shift}, "short");
    expect({.lengths = {60, 200, 5, 300, 70},
            .P = 20,
            .N = 70,
            .shift = shift,
            .dt_mean = -5,
            .A_low = 0.05},
           "with states");
  }
  expect({.lengths = {40, 150, 20}, .P = 9, .N = 8, .dt_mean = 4, .dt_spread = 2, .A_high = 50},
         "no memory");
}

TEST(CudaPlainScan, TooManyTokensAreRefused) {
  ScanLayout layout{};
  layout.n = kMostTokens;
  const ScanShape shape = shape_of({});
  const ScanMemory none{nullptr, nullptr};
  EXPECT_EQ(cudaErrorInvalidValue,
            plain_scan_forward<float>({shape, {}, {}}, layout, none, nullptr));
  EXPECT_EQ(cudaErrorInvalidValue,
            plain_scan_backward<float>({shape, {}, {}, {}}, layout, none, nullptr));
}

// Against the recurrence, and the transposed against the product: <dx, x> = <dy, y>.
TEST(CudaPlainScan, AMillionTokens) {
  SKIP_WITHOUT_GPU();
  const Problem p{.lengths = {1000000}, .H = 1, .P = 2, .N = 3, .dt_mean = -7, .A_low = 0.1};
  const Values v = Values::of<float>(p);
  const Outcome run = on_device<float>(p, v);
  const auto y = recurrence_of_one_head(p, v);
  EXPECT_LT(relative_error(run.results.y, y), 2e-6);
  EXPECT_LT(adjoint_error(v, y, run.results.dx), 1e-6);
}

TEST(CudaPlainScan, NothingToDo) {
  SKIP_WITHOUT_GPU();
  const ScanShape shape = shape_of({.H = 2, .P = 3, .G = 1, .N = 4});
  const ScanMemory none{nullptr, nullptr};
  EXPECT_EQ(cudaSuccess, plain_scan_forward<float>({shape, {}, {}}, {}, none, nullptr));
  EXPECT_EQ(cudaSuccess, plain_scan_backward<float>({shape, {}, {}, {}}, {}, none, nullptr));
}

}  // namespace
}  // namespace hydramix::cuda
