// SPDX-License-Identifier: Apache-2.0
// The plain scan's kernels against the formula, entry by entry, in float64.
#include "kernels/cuda/plain_scan.h"

#include <string>

#include "kernels/cuda/limits.h"
#include "kernels/cuda/token_tiles.h"
#include "support/cuda.h"
#include "support/scan_isolation.h"
#include "support/scan_reference.h"

namespace hydramix::cuda {
namespace {

using B16 = __nv_bfloat16;
using Problem = ScanProblem;
using Values = ScanValues;
using Results = ScanResults;

struct Outcome {
  Results results;
  std::vector<uint8_t> bits;  // of all outputs
};

std::vector<int> with_empty(const TokenTiles& tiles, int empty) {
  auto begins = tiles.begins;
  begins.resize(begins.size() + static_cast<std::size_t>(empty), tiles.begins.back());
  return begins;
}

// A layout on the device.
struct Tiles {
  explicit Tiles(const Problem& p)
      : tiles(p.offsets()), bounds(tiles.bounds), begins(with_empty(tiles, p.empty_tiles)) {
    layout = {bounds.data(), begins.data(), p.n(), tiles.tiles() + p.empty_tiles};
    layout.states = tiles.states || p.empty_tiles > 0;
  }
  TokenTiles tiles;
  DeviceBuffer<int2> bounds;
  DeviceBuffer<int> begins;
  ScanLayout layout;
};

template <typename T>
ScanShape shape_of(const Problem& p) {
  return {p.H,
          p.P,
          p.G,
          p.N,
          p.shift,
          {p.on[0], p.on[1]},
          static_cast<float>(p.dt_low),
          static_cast<float>(p.dt_high),
          sizeof(T) == 4,
          sizeof(T) == 4};
}

// x, b and c are columns of one wide matrix, and so are their gradients: rows of odd length, the
// first column unused. T is the type of dt and delta.
template <typename S, typename T = S>
Outcome on_device(const Problem& p, const Values& v) {
  const int64_t n = p.n();
  const int H = p.H, P = p.P, G = p.G, N = p.N, GN = G * N;
  const int64_t wide = (H * P + 4 * GN + 1) | 1;
  std::vector<double> packed(n * wide);
  const auto place = [&](const std::vector<double>& from, int64_t width, int64_t column) {
    for (int64_t t = 0; t < n; ++t)
      std::copy_n(from.begin() + t * width, width, packed.begin() + t * wide + column);
  };
  place(v.x, H * P, 1);
  const int64_t b_at[2] = {1 + H * P, 1 + H * P + 2 * GN};
  const int64_t c_at[2] = {1 + H * P + GN, 1 + H * P + 3 * GN};
  for (const int d : {0, 1}) {
    place(v.b[d], GN, b_at[d]);
    place(v.c[d], GN, c_at[d]);
  }
  const DeviceBuffer<S> input(stored<S>(packed)), dinput(n * wide), y(n * H * P),
      dy(stored<S>(v.dy));
  const DeviceBuffer<T> delta(stored<T>(v.delta)), ddelta(n * H);
  const DeviceBuffer<T> dt0(stored<T>(v.dt[0])), dt1(stored<T>(v.dt[1])), ddt0(n * H), ddt1(n * H);
  const DeviceBuffer<float> dt_bias(stored<float>(v.dt_bias)), A(stored<float>(v.A)),
      diagonal(stored<float>(v.diagonal)), ddt_bias(H), dA(H), ddiagonal(H);

  const Tiles tiles(p);
  const ScanLayout& layout = tiles.layout;
  const ScanShape shape = shape_of<T>(p);
  PlainScanInputs<S> in;
  PlainScanGradients<S> out;
  in.x = input.data() + 1;
  out.x = dinput.data() + 1;
  in.x_row = out.x_row = wide;
  for (const int d : {0, 1}) {
    in.direction[d] = {d == 0 ? dt0.data() : dt1.data(),
                       input.data() + b_at[d],
                       input.data() + c_at[d],
                       H,
                       wide,
                       wide};
    out.direction[d] = {d == 0 ? ddt0.data() : ddt1.data(),
                        dinput.data() + b_at[d],
                        dinput.data() + c_at[d],
                        H,
                        wide,
                        wide};
  }
  in.dt_bias = dt_bias.data();
  in.A = A.data();
  in.diagonal = diagonal.data();
  in.delta = delta.data();
  in.delta_row = out.delta_row = H;
  out.dt_bias = ddt_bias.data();
  out.A = dA.data();
  out.diagonal = ddiagonal.data();
  out.delta = ddelta.data();
  const auto bytes = [](std::size_t size) { return static_cast<int64_t>(size); };
  const DeviceBuffer<uint8_t> saved(bytes(plain_scan_saved_bytes(shape, layout))),
      scratch(bytes(plain_scan_forward_bytes(shape, layout))),
      back(bytes(plain_scan_backward_bytes(shape, layout)));
  EXPECT_EQ(cudaSuccess, plain_scan_forward(shape, layout, in, saved.data(), scratch.data(),
                                            y.data(), H * P, nullptr));
  EXPECT_EQ(cudaSuccess,
            plain_scan_backward(shape, layout, in, saved.data(), back.data(),
                                static_cast<const S*>(dy.data()), H * P, out, nullptr));
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());

  Outcome run;
  const auto keep = [&](const auto& values) {
    const auto* raw = reinterpret_cast<const uint8_t*>(values.data());
    run.bits.insert(run.bits.end(), raw, raw + values.size() * sizeof(values[0]));
    return widened(values);
  };
  Results& r = run.results;
  r.y = keep(y.host());
  const auto all = keep(dinput.host());
  const auto columns = [&](int64_t column, int64_t width) {
    std::vector<double> part;
    for (int64_t t = 0; t < n; ++t)
      part.insert(part.end(), all.begin() + t * wide + column,
                  all.begin() + t * wide + column + width);
    return part;
  };
  r.dx = columns(1, H * P);
  for (const int d : {0, 1}) {
    if (!p.on[d]) continue;
    r.db[d] = columns(b_at[d], GN);
    r.dc[d] = columns(c_at[d], GN);
    r.ddt[d] = keep(d == 0 ? ddt0.host() : ddt1.host());
  }
  const int64_t used = 1 + H * P + 4 * GN;
  for (const auto& beside : {columns(0, 1), columns(used, wide - used)})
    for (const double value : beside)
      EXPECT_TRUE(std::isnan(value)) << "written beside the gradient";
  r.ddt_bias = keep(ddt_bias.host());
  r.dA = keep(dA.host());
  r.ddiagonal = keep(ddiagonal.host());
  r.ddelta = keep(ddelta.host());
  return run;
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
  const ScanShape shape = shape_of<float>({});
  EXPECT_EQ(cudaErrorInvalidValue,
            plain_scan_forward<float>(shape, layout, {}, nullptr, nullptr, nullptr, 0, nullptr));
  EXPECT_EQ(cudaErrorInvalidValue, plain_scan_backward<float>(shape, layout, {}, nullptr, nullptr,
                                                              nullptr, 0, {}, nullptr));
}

// Against the recurrence, and the transposed against the product: <dx, x> = <dy, y>.
TEST(CudaPlainScan, AMillionTokens) {
  SKIP_WITHOUT_GPU();
  const Problem p{.lengths = {1000000}, .H = 1, .P = 2, .N = 3, .dt_mean = -7, .A_low = 0.1};
  const Values v = Values::of<float>(p);
  const Outcome run = on_device<float>(p, v);
  const int64_t n = p.n();
  std::vector<double> y(v.x.size());
  for (const int d : {0, 1}) {
    std::vector<double> state(p.P * p.N);
    const auto token = [&](int64_t q) { return d == 0 ? q : n - 1 - q; };
    for (int64_t q = 0; q < n; ++q) {
      const int64_t t = token(q);
      const double dt = std::log1p(std::exp(v.dt[d][t] + v.dt_bias[0])),
                   decay = std::exp(v.A[0] * dt);
      for (int i = 0; i < p.P; ++i)
        for (int k = 0; k < p.N; ++k) {
          double& value = state[i * p.N + k];
          if (q > 0) y[t * p.P + i] += v.c[d][token(q - 1) * p.N + k] * value;
          value = decay * value + dt * v.b[d][t * p.N + k] * v.x[t * p.P + i];
        }
    }
  }
  double one = 0, other = 0, size = 0;
  for (int64_t i = 0; i < n * p.P; ++i) {
    y[i] += (v.diagonal[0] + v.delta[i / p.P]) * v.x[i];
    one += run.results.dx[i] * v.x[i];
    other += v.dy[i] * y[i];
    size += y[i] * y[i];
  }
  EXPECT_LT(relative_error(run.results.y, y), 2e-6);
  EXPECT_LT(std::abs(one - other), 1e-6 * std::sqrt(size * static_cast<double>(n * p.P)));
}

TEST(CudaPlainScan, NothingToDo) {
  SKIP_WITHOUT_GPU();
  const ScanShape shape{2, 3, 1, 4, 1, {true, true}, 0, INFINITY, true, true};
  EXPECT_EQ(cudaSuccess,
            plain_scan_forward<float>(shape, {}, {}, nullptr, nullptr, nullptr, 0, nullptr));
  EXPECT_EQ(cudaSuccess,
            plain_scan_backward<float>(shape, {}, {}, nullptr, nullptr, nullptr, 0, {}, nullptr));
}

}  // namespace
}  // namespace hydramix::cuda
