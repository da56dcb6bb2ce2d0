// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gated_scan.h"

#include <algorithm>
#include <numeric>

#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

using BFloat16 = __nv_bfloat16;

enum class Gates {
  usual,   // -exp(normal)
  weak,    // a thousandth of them: a sequence is remembered as a whole
  strong,  // thirty times as large
  closed,  // one in eight is -1e30 or minus infinity, others are usual, tiny or 0
};

struct Case {
  std::vector<int> lengths;  // of the sequences
  int64_t H, N, P;
  bool reverse = false;
  bool uniform = false;  // tell the kernel that all lengths are equal
  int64_t extra = 0;     // columns of all rows that belong to others
  Gates gates = Gates::usual;
};

GatedScanShape shape_of(const Case& c) {
  GatedScanShape s{};
  s.n = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0});
  s.H = c.H, s.N = c.N, s.P = c.P;
  s.length = c.uniform ? c.lengths.front() : 0;
  s.reverse = c.reverse;
  return s;
}

std::vector<int2> bounds_of_lengths(const std::vector<int>& lengths) {
  std::vector<int2> bounds;
  int first = 0;
  for (const int length : lengths) {
    bounds.insert(bounds.end(), static_cast<std::size_t>(length), int2{first, first + length});
    first += length;
  }
  return bounds;
}

using Values = std::vector<double>;
struct Inputs {
  Values q, k, g, x, dy;
};
struct Outputs {
  Values y, dq, dk, dg, dx;
};

template <typename G>
Inputs inputs_of(const Case& c) {
  const auto s = shape_of(c);
  const auto rounded = [](int64_t count, uint64_t seed) {
    return widened(stored<BFloat16>(normal_values(count, seed)));
  };
  const int64_t keys = s.n * s.H * s.N, values = s.n * s.H * s.P;
  Values g;
  std::mt19937_64 generator(6);
  for (const double v : normal_values(keys, 3)) {
    const double usual = -std::exp(v);
    const uint64_t kind = c.gates == Gates::closed ? generator() % 32 : 31;
    g.push_back(kind < 2                   ? -1e30
                : kind < 4                 ? -INFINITY
                : kind < 10                ? 0
                : kind < 14                ? usual * 1e-30
                : c.gates == Gates::weak   ? usual * 1e-3
                : c.gates == Gates::strong ? usual * 30
                                           : usual);
  }
  return {rounded(keys, 1), rounded(keys, 2), widened(stored<G>(g)), rounded(values, 4),
          rounded(values, 5)};
}

// The recurrence and its derivative, token by token, in float64.
Outputs expected(const Case& c, const Inputs& in) {
  const auto s = shape_of(c);
  const int64_t N = s.N, P = s.P;
  Outputs out{Values(in.x.size()), Values(in.q.size()), Values(in.q.size()), Values(in.q.size()),
              Values(in.x.size())};
  int64_t begin = 0;
  for (const int length : c.lengths) {
    const auto row = [&](int64_t t) { return c.reverse ? begin + length - 1 - t : begin + t; };
    for (int64_t head = 0; head < s.H; ++head) {
      Values states(static_cast<std::size_t>((length + 1) * N * P));
      for (int64_t t = 0; t < length; ++t) {
        const int64_t key = (row(t) * s.H + head) * N, value = (row(t) * s.H + head) * P;
        const double* before = &states[t * N * P];
        double* state = &states[(t + 1) * N * P];
        for (int64_t n = 0; n < N; ++n) {
          const double gate = std::exp(in.g[key + n]);
          for (int64_t p = 0; p < P; ++p) {
            state[n * P + p] = gate * before[n * P + p] + in.k[key + n] * in.x[value + p];
            out.y[value + p] += in.q[key + n] * state[n * P + p];
          }
        }
      }
      Values d(static_cast<std::size_t>(N * P));  // the gradient of the state
      for (int64_t t = length - 1; t >= 0; --t) {
        const int64_t key = (row(t) * s.H + head) * N, value = (row(t) * s.H + head) * P;
        const double* before = &states[t * N * P];
        const double* state = &states[(t + 1) * N * P];
        for (int64_t n = 0; n < N; ++n) {
          const double gate = std::exp(in.g[key + n]);
          for (int64_t p = 0; p < P; ++p) {
            double& dstate = d[n * P + p];
            dstate += in.q[key + n] * in.dy[value + p];
            out.dq[key + n] += state[n * P + p] * in.dy[value + p];
            out.dk[key + n] += dstate * in.x[value + p];
            out.dx[value + p] += dstate * in.k[key + n];
            dstate *= gate;
            out.dg[key + n] += before[n * P + p] * dstate;
          }
        }
      }
    }
    begin += length;
  }
  return out;
}

// Gradients only where a backward pass fits.
template <typename G>
void run_scan(const Case& c, const Inputs& in, Outputs& out) {
  const auto s = shape_of(c);
  const int64_t keys = s.H * s.N, values = s.H * s.P, key = keys + c.extra,
                value = values + c.extra;
  const DeviceBuffer<int2> bounds(bounds_of_lengths(c.lengths));
  const DeviceBuffer<BFloat16> q(beside<BFloat16>(in.q, keys, c.extra)),
      k(beside<BFloat16>(in.k, keys, c.extra)), x(beside<BFloat16>(in.x, values, c.extra)),
      dy(beside<BFloat16>(in.dy, values, c.extra));
  const DeviceBuffer<G> g(beside<G>(in.g, keys, c.extra));
  const GatedScanInputs<G> inputs{
      {q.data(), key}, {k.data(), key}, {g.data(), key}, {x.data(), value}};
  const DeviceBuffer<BFloat16> y(s.n * value), dq(s.n * key), dk(s.n * key), dx(s.n * value),
      states(gated_scan_states(s));
  const DeviceBuffer<G> dg(s.n * key);
  const DeviceBuffer<unsigned char> forward_space(
      static_cast<int64_t>(gated_scan_forward_workspace(s)));
  const DeviceBuffer<unsigned char> backward_space(
      static_cast<int64_t>(gated_scan_backward_workspace(s)));
  const GatedScanForward<G> forward{
      s, inputs, {y.data(), value}, states.data(), forward_space.data()};
  const GatedScanBackward<G> backward{s,
                                      inputs,
                                      states.data(),
                                      {dy.data(), value},
                                      {dq.data(), key},
                                      {dk.data(), key},
                                      {dg.data(), key},
                                      {dx.data(), value},
                                      backward_space.data()};
  ASSERT_CUDA(gated_scan_forward<G>(forward, bounds.data(), nullptr));
  out.y = without(y.host(), values, c.extra);
  if (!gated_scan_fits(s, true)) return;
  ASSERT_CUDA(gated_scan_backward<G>(backward, bounds.data(), nullptr));
  out.dq = without(dq.host(), keys, c.extra);
  out.dk = without(dk.host(), keys, c.extra);
  out.dg = without(dg.host(), keys, c.extra);
  out.dx = without(dx.host(), values, c.extra);
}

template <typename G>
void check_scan(const Case& c) {
  const auto s = shape_of(c);
  if (!gated_scan_fits(s, false)) return;
  SCOPED_TRACE(testing::Message() << s.n << " tokens, H " << s.H << ", N " << s.N << ", P " << s.P
                                  << ", reverse " << s.reverse << ", length " << s.length
                                  << ", gates " << static_cast<int>(c.gates) << " of " << sizeof(G)
                                  << " bytes");
  const auto in = inputs_of<G>(c);
  const auto want = expected(c, in);
  Outputs first, second;
  run_scan<G>(c, in, first);
  run_scan<G>(c, in, second);
  if (testing::Test::HasFatalFailure()) return;
  const auto near = [&](const char* what, const Values Outputs::*part) {
    // Rounding to bfloat16 has a relative error of 2^-8 at most and of 0.42 times that in the mean
    // square. A result has up to five: of q, k and the decay between blocks, of their product or
    // of the state, and its own. Those of many terms are independent, so their squares add up to
    // (3.7e-3)^2. A fifth more.
    EXPECT_LT(relative_error(first.*part, want.*part), 4.4e-3) << what;
    EXPECT_EQ(first.*part, second.*part) << what;
  };
  near("y", &Outputs::y);
  if (!gated_scan_fits(s, true)) return;
  near("dq", &Outputs::dq);
  near("dk", &Outputs::dk);
  near("dg", &Outputs::dg);
  near("dx", &Outputs::dx);
  // A closed gate has no gradient. What is left of the terms that cancel has errors of float32.
  double size = 0, most = 0;
  for (const double v : want.dg) size += v * v / static_cast<double>(want.dg.size());
  for (std::size_t i = 0; i < in.g.size(); ++i)
    if (in.g[i] < -1e20) most = std::max(most, std::abs(first.dg[i]));
  EXPECT_LE(most, 1e-3 * std::sqrt(size));
}

template <typename G>
class GatedScanKernel : public testing::Test {};
using GateTypes = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(GatedScanKernel, GateTypes);

TYPED_TEST(GatedScanKernel, AnySizeAndDirection) {
  SKIP_WITHOUT_GPU();
  for (const int64_t N : {32, 64, 128})
    for (const int64_t P : {32, 64, 128})
      for (const bool reverse : {false, true}) check_scan<TypeParam>({{100, 30}, 2, N, P, reverse});
}

TYPED_TEST(GatedScanKernel, SequencesOfOddLengths) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true}) {
    check_scan<TypeParam>({{1, 2, 15, 16, 17, 3, 63, 64, 65, 1, 130, 7, 33}, 2, 64, 64, reverse});
    check_scan<TypeParam>({{1}, 1, 64, 64, reverse});
    check_scan<TypeParam>({{17, 200}, 3, 32, 64, reverse, false, 8});
  }
}

TYPED_TEST(GatedScanKernel, CarriesStatesBetweenSegments) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true}) {
    check_scan<TypeParam>({{1500}, 1, 32, 32, reverse, true, 0, Gates::weak});
    check_scan<TypeParam>(
        {{700, 1, 800, 129, 256, 256}, 2, 32, 32, reverse, false, 0, Gates::weak});
    check_scan<TypeParam>({{257, 500}, 1, 64, 64, reverse, false, 16, Gates::weak});
  }
}

TYPED_TEST(GatedScanKernel, SequencesOfEqualLength) {
  SKIP_WITHOUT_GPU();
  // With no states, with states of independent segments, and with those that are carried.
  check_scan<TypeParam>({std::vector<int>(5, 32), 2, 32, 32, false, true, 0, Gates::weak});
  check_scan<TypeParam>({std::vector<int>(5, 64), 2, 32, 32, true, true, 0, Gates::weak});
  check_scan<TypeParam>({std::vector<int>(34, 128), 4, 32, 32, false, true, 0, Gates::weak});
  check_scan<TypeParam>({std::vector<int>(34, 128), 4, 32, 32, true, true, 0, Gates::weak});
  check_scan<TypeParam>({std::vector<int>(9, 33), 2, 32, 32, false, true, 0, Gates::weak});
}

TYPED_TEST(GatedScanKernel, ExtremeGates) {
  SKIP_WITHOUT_GPU();
  for (const auto gates : {Gates::weak, Gates::strong, Gates::closed})
    for (const bool reverse : {false, true})
      check_scan<TypeParam>({{150, 300}, 2, 64, 64, reverse, false, 0, gates});
  check_scan<TypeParam>({{100}, 1, 128, 64, false, false, 0, Gates::closed});
}

// A value that is not finite changes nothing in other sequences.
TYPED_TEST(GatedScanKernel, KeepsNonFiniteValuesInTheirSequence) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true}) {
    // The middle sequence shares windows with both others, and segments too.
    const Case c{{310, 200, 330}, 1, 64, 64, reverse};
    const auto s = shape_of(c);
    const auto clean = inputs_of<TypeParam>(c);
    Outputs want;
    run_scan<TypeParam>(c, clean, want);
    for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
      auto in = clean;
      for (const int64_t t : {310, 377, 509}) {
        in.x[t * s.P + 5] = in.dy[t * s.P + 9] = bad;
        in.q[t * s.N + 7] = in.k[t * s.N + 11] = bad;
      }
      in.g[400 * s.N + 3] = NAN;
      Outputs got;
      run_scan<TypeParam>(c, in, got);
      if (testing::Test::HasFatalFailure()) return;
      const auto same = [&](const char* what, const Values Outputs::*part, int64_t width) {
        for (int64_t i = 0; i < s.n * width; ++i) {
          const int64_t token = i / width;
          if (token >= 310 && token < 510) continue;
          ASSERT_EQ((got.*part)[i], (want.*part)[i]) << what << " of token " << token;
        }
      };
      same("y", &Outputs::y, s.P);
      same("dq", &Outputs::dq, s.N);
      same("dk", &Outputs::dk, s.N);
      same("dg", &Outputs::dg, s.N);
      same("dx", &Outputs::dx, s.P);
    }
  }
}

TEST(GatedScan, RefusesShapesWithoutAKernel) {
  GatedScanShape shape{};
  shape.n = 10, shape.H = 1, shape.N = 48, shape.P = 64;
  EXPECT_FALSE(gated_scan_fits(shape, false));
  EXPECT_EQ(gated_scan_forward<float>({shape, {}, {}, nullptr, nullptr}, nullptr, nullptr),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hydramix::cuda
