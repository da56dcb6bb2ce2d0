// SPDX-License-Identifier: Apache-2.0
// The scan of heads with their own b and c against the formula, entry by entry, in float64.
#include "kernels/cuda/head_scan.h"

#include "kernels/cuda/limits.h"
#include "support/scan_isolation.h"
#include "support/scan_on_device.h"

namespace hydramix::cuda {
namespace {

using B16 = __nv_bfloat16;

// The gradients that these kernels do not compute are not wanted, and there is no delta.
template <bool kGradients>
struct HeadKernels {
  static constexpr auto saved_bytes = head_scan_saved_bytes;
  static constexpr auto forward_bytes = head_scan_forward_bytes;
  static constexpr auto backward_bytes = head_scan_backward_bytes;
  static cudaError_t forward(ScanForward<B16> p, const ScanLayout& layout,
                             const ScanMemory& memory) {
    p.in.delta = {};
    return head_scan_forward(p, layout, memory, kGradients, nullptr);
  }
  static cudaError_t backward(ScanBackward<B16> p, const ScanLayout& layout,
                              const ScanMemory& memory) {
    if (!kGradients) return cudaSuccess;
    p.in.delta = {};
    auto& out = p.out;
    out.dt_bias = out.A = out.diagonal = nullptr;
    out.delta = {};
    for (auto& direction : out.direction) direction.dt = {};
    return head_scan_backward(p, layout, memory, nullptr);
  }
};

// A problem of one direction: forward, or from the last token to the first.
ScanProblem heads_problem(bool reverse, ScanProblem p) {
  p.G = p.H;
  p.shift = 0;
  p.on[reverse ? 0 : 1] = false;
  return p;
}

ScanValues heads_values(const ScanProblem& p) {
  auto v = ScanValues::of<B16>(p);
  std::fill(v.delta.begin(), v.delta.end(), 0.0);
  return v;
}

template <bool kGradients = true>
ScanOutcome run_heads(const ScanProblem& p, const ScanValues& v) {
  EXPECT_TRUE(head_scan_fits(shape_of(p)));
  // 16 bytes are unused after each row.
  return scan_on_device<HeadKernels<kGradients>, B16, B16>(p, v,
                                                           {0, p.H * p.P + 4 * p.G * p.N + 8});
}

void expect_heads(const ScanProblem& p) {
  const int d = p.on[0] ? 0 : 1;
  std::string lengths;
  for (const auto length : p.lengths) lengths += " " + std::to_string(length);
  SCOPED_TRACE(testing::Message() << "lengths" << lengths << ", H " << p.H << ", P " << p.P
                                  << ", N " << p.N << ", direction " << d << ", segment "
                                  << p.segment);
  const auto v = heads_values(p);
  const auto run = run_heads(p, v);
  const auto want = scan_reference(p, v);
  // Rounding to bfloat16 has a relative error of 2^-8 at most and of 0.42 times that in the mean
  // square. A result has three: of the matrix or the state, of what is carried, and its own. Those
  // of many terms are independent, so their squares add up to (2.9e-3)^2. A fifth more.
  const auto near = [](const char* what, const std::vector<double>& got,
                       const std::vector<double>& wanted) {
    EXPECT_LT(relative_error(got, wanted), 3.5e-3) << what;
  };
  near("y", run.results.y, want.y);
  near("dx", run.results.dx, want.dx);
  near("db", run.results.db[d], want.db[d]);
  near("dc", run.results.dc[d], want.dc[d]);
  EXPECT_EQ(run.bits, run_heads(p, v).bits) << "another run gave other bits";
  EXPECT_EQ(run.results.y, run_heads</*kGradients=*/false>(p, v).results.y)
      << "y depends on whether gradients are wanted";
}

TEST(HeadScan, OneTile) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true})
    for (const int64_t L : {1, 2, 15, 16, 17, 64, 97, 127, 128})
      expect_heads(heads_problem(reverse, {.lengths = {L}}));
}

TEST(HeadScan, Tiles) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true})
    for (const int64_t L : {129, 256, 257, 509, 1021})
      expect_heads(heads_problem(reverse, {.lengths = {L}, .dt_mean = -5, .A_low = 0.05}));
}

TEST(HeadScan, Sequences) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true})
    for (const auto& lengths : std::vector<std::vector<int64_t>>{
             {128, 128, 128},
             {1, 1, 2, 1, 3},
             {17, 40, 64, 100, 30, 128, 5},
             {196, 196, 196},
             {3, 300, 1, 129, 700, 2, 60},
         })
      expect_heads(heads_problem(reverse, {.lengths = lengths}));
}

TEST(HeadScan, Sizes) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true})
    for (const int P : {32, 64})
      for (const int N : {32, 64})
        expect_heads(heads_problem(
            reverse, {.lengths = {150, 300, 77}, .H = 3, .P = P, .N = N, .dt_mean = -5}));
}

TEST(HeadScan, CarriesStatesBetweenSegments) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true})
    for (const int segment : {1, 2, 3})
      expect_heads(heads_problem(reverse, {.lengths = {900, 100, 513},
                                           .dt_mean = -5,
                                           .A_low = 0.05,
                                           .segment = segment,
                                           .empty_tiles = segment == 2 ? 3 : 0}));
}

// The steps of retention are 1, and decays range from almost none to those that forget at once.
TEST(HeadScan, ConstantSteps) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true})
    for (const double A : {1e-4, 1.0, 1e3})
      expect_heads(heads_problem(
          reverse,
          {.lengths = {300, 90, 200}, .A_low = A, .A_high = 3 * A, .dt_low = 1, .dt_high = 1}));
}

TEST(HeadScan, ExtremeSteps) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true}) {
    expect_heads(heads_problem(reverse, {.lengths = {200, 60}, .dt_mean = -30, .dt_spread = 3}));
    expect_heads(heads_problem(
        reverse, {.lengths = {200, 60}, .dt_spread = 6, .A_low = 1e-3, .A_high = 100}));
  }
}

// Sequences that share tiles, that begin and end in the middle of tiles, and that fill some.
TEST(HeadScan, WhatIsNotFiniteStaysInItsSequence) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true})
    for (const auto& p : {ScanProblem{.lengths = {30, 1, 50, 17, 40}, .P = 32},
                          ScanProblem{.lengths = {60, 200, 5, 300, 70},
                          .N = 32,
                          .dt_mean = -5,
                          .A_low = 0.05,
                          .segment = 2}}) {
      const auto problem = heads_problem(reverse, p);
      expect_isolation<B16>(
          problem,
          [&](ScanValues v) {
            std::fill(v.delta.begin(), v.delta.end(), 0.0);
            auto results = run_heads(problem, v).results;
            for (auto* other : {&results.ddt[0], &results.ddt[1], &results.ddelta})
              std::fill(other->begin(), other->end(), 0.0);  // not computed
            return results;
          },
          {"x", "dt", "b", "c", "dy"});
    }
}

TEST(HeadScan, RefusesWhatItHasNoKernelsFor) {
  const auto fits = [](const ScanProblem& p) { return head_scan_fits(shape_of(p)); };
  const auto good = heads_problem(false, {});
  EXPECT_TRUE(fits(good));
  for (const int change : {0, 1, 2, 3, 4}) {
    auto p = good;
    if (change == 0) p.P = 48;
    if (change == 1) p.N = 128;
    if (change == 2) p.G = 1;
    if (change == 3) p.shift = 1;
    if (change == 4) p.on[1] = true;
    EXPECT_FALSE(fits(p)) << change;
    EXPECT_EQ(cudaErrorInvalidValue,
              head_scan_forward({shape_of(p), {}, {}}, {}, {nullptr, nullptr}, true, nullptr));
    EXPECT_EQ(cudaErrorInvalidValue,
              head_scan_backward({shape_of(p), {}, {}, {}}, {}, {nullptr, nullptr}, nullptr));
  }
  ScanLayout layout{};
  layout.n = kMostTokens;
  EXPECT_EQ(cudaErrorInvalidValue,
            head_scan_forward({shape_of(good), {}, {}}, layout, {nullptr, nullptr}, true, nullptr));
  EXPECT_EQ(cudaErrorInvalidValue,
            head_scan_backward({shape_of(good), {}, {}, {}}, layout, {nullptr, nullptr}, nullptr));
}

}  // namespace
}  // namespace hydramix::cuda
