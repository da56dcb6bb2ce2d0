// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/selective_scan.h"

#include <algorithm>
#include <numeric>

#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

using BFloat16 = __nv_bfloat16;

struct Case {
  std::vector<int> lengths;  // of the sequences
  int64_t C, N;
  bool reverse = false;
  bool uniform = false;  // tell the kernel that all lengths are equal
  bool skip = true;
  int64_t extra = 0;  // columns of x, dt and y that belong to others
  double dt_low = 0, dt_high = INFINITY;
  double decay = 1;  // scale of A
};

SelectiveScanShape shape_of(const Case& c) {
  SelectiveScanShape s{};
  s.n = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0});
  s.C = c.C, s.N = c.N;
  s.length = c.uniform ? c.lengths.front() : 0;
  s.reverse = c.reverse;
  s.dt_low = static_cast<float>(c.dt_low), s.dt_high = static_cast<float>(c.dt_high);
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
  Values x, dt, b, c, A, bias, skip, dy;
};
struct Outputs {
  Values y, dx, ddt, db, dc, dA, dbias, dskip;
};

template <typename S>
Inputs inputs_of(const Case& c) {
  const auto s = shape_of(c);
  const auto rounded = [](int64_t count, uint64_t seed, double size) {
    return widened(stored<S>(normal_values(count, seed, size)));
  };
  Inputs in{rounded(s.n * s.C, 1, 1),
            rounded(s.n * s.C, 2, 1),
            rounded(s.n * s.N, 3, 1),
            rounded(s.n * s.N, 4, 1),
            {},
            {},
            {},
            rounded(s.n * s.C, 5, 1)};
  for (const double v : normal_values(s.C * s.N, 6)) in.A.push_back(-c.decay * std::exp(v));
  in.A = widened(stored<float>(in.A));
  in.bias = widened(stored<float>(normal_values(s.C, 7, 1)));
  for (auto& v : in.bias) v = static_cast<double>(static_cast<float>(v - 1));
  in.skip = widened(stored<float>(normal_values(s.C, 8, 1)));
  return in;
}

// The recurrence and its derivative, token by token, in float64.
Outputs expected(const Case& c, const Inputs& in) {
  const auto s = shape_of(c);
  const auto N = s.N;
  Outputs out{Values(in.x.size()),    Values(in.x.size()),   Values(in.x.size()),
              Values(in.b.size()),    Values(in.b.size()),   Values(in.A.size()),
              Values(in.bias.size()), Values(in.bias.size())};
  int64_t begin = 0;
  for (const int length : c.lengths) {
    const auto row = [&](int64_t t) { return c.reverse ? begin + length - 1 - t : begin + t; };
    for (int64_t channel = 0; channel < s.C; ++channel) {
      Values states(static_cast<std::size_t>((length + 1) * N)), dts(length), slopes(length);
      for (int64_t t = 0; t < length; ++t) {
        const int64_t at = row(t) * s.C + channel;
        const double raw = in.dt[at] + in.bias[channel];
        const double free = std::log1p(std::exp(-std::abs(raw))) + std::max(raw, 0.0);
        dts[t] = std::clamp(free, c.dt_low, c.dt_high);
        slopes[t] = dts[t] != free ? 0 : 1 / (1 + std::exp(-raw));
        double y = c.skip ? in.skip[channel] * in.x[at] : 0;
        for (int64_t i = 0; i < N; ++i) {
          const double a = std::exp(dts[t] * in.A[channel * N + i]);
          states[(t + 1) * N + i] =
              a * states[t * N + i] + dts[t] * in.x[at] * in.b[row(t) * N + i];
          y += in.c[row(t) * N + i] * states[(t + 1) * N + i];
        }
        out.y[at] = y;
      }
      Values g(static_cast<std::size_t>(N));
      for (int64_t t = length - 1; t >= 0; --t) {
        const int64_t at = row(t) * s.C + channel;
        const double dy = in.dy[at];
        double bg = 0, ddt = 0;
        for (int64_t i = 0; i < N; ++i) {
          const double A = in.A[channel * N + i], a = std::exp(dts[t] * A);
          g[i] += in.c[row(t) * N + i] * dy;
          out.dc[row(t) * N + i] += dy * states[(t + 1) * N + i];
          out.db[row(t) * N + i] += dts[t] * in.x[at] * g[i];
          bg += in.b[row(t) * N + i] * g[i];
          g[i] *= a;
          out.dA[channel * N + i] += dts[t] * states[t * N + i] * g[i];
          ddt += A * states[t * N + i] * g[i];
        }
        ddt = (ddt + in.x[at] * bg) * slopes[t];
        out.ddt[at] = ddt;
        out.dbias[channel] += ddt;
        out.dx[at] = dts[t] * bg + (c.skip ? in.skip[channel] * dy : 0);
        out.dskip[channel] += dy * in.x[at];
      }
    }
    begin += length;
  }
  return out;
}

template <typename S>
void run_scan(const Case& c, const Inputs& in, Outputs& out) {
  const auto s = shape_of(c);
  const int64_t row = s.C + c.extra;
  const DeviceBuffer<int2> bounds(bounds_of_lengths(c.lengths));
  const DeviceBuffer<S> x(beside<S>(in.x, s.C, c.extra)), dt(beside<S>(in.dt, s.C, c.extra)),
      b(stored<S>(in.b)), cc(stored<S>(in.c)), dy(beside<S>(in.dy, s.C, c.extra));
  const DeviceBuffer<float> A(stored<float>(in.A)), bias(stored<float>(in.bias)),
      skip(stored<float>(in.skip));
  const SelectiveScanInputs<S> inputs{{x.data(), row},
                                      {dt.data(), row},
                                      {b.data(), s.N},
                                      {cc.data(), s.N},
                                      A.data(),
                                      bias.data(),
                                      c.skip ? skip.data() : nullptr};
  const DeviceBuffer<S> y(s.n * row), dx(s.n * row), ddt(s.n * row), db(s.n * s.N), dc(s.n * s.N);
  const DeviceBuffer<float> states(selective_scan_states(s)), dA(s.C * s.N), dbias(s.C), dskip(s.C);
  const DeviceBuffer<unsigned char> forward_space(
      static_cast<int64_t>(selective_scan_forward_workspace(s)));
  const DeviceBuffer<unsigned char> backward_space(
      static_cast<int64_t>(selective_scan_backward_workspace(s)));
  const SelectiveScanForward<S> forward{
      s, inputs, {y.data(), row}, states.data(), forward_space.data()};
  const SelectiveScanBackward<S> backward{s,
                                          inputs,
                                          states.data(),
                                          {dy.data(), row},
                                          {dx.data(), row},
                                          {ddt.data(), row},
                                          {db.data(), s.N},
                                          {dc.data(), s.N},
                                          dA.data(),
                                          dbias.data(),
                                          c.skip ? dskip.data() : nullptr,
                                          backward_space.data()};
  ASSERT_CUDA(selective_scan_forward<S>(forward, bounds.data(), nullptr));
  ASSERT_CUDA(selective_scan_backward<S>(backward, bounds.data(), nullptr));
  out.y = without(y.host(), s.C, c.extra);
  out.dx = without(dx.host(), s.C, c.extra);
  out.ddt = without(ddt.host(), s.C, c.extra);
  out.db = widened(db.host()), out.dc = widened(dc.host());
  out.dA = widened(dA.host()), out.dbias = widened(dbias.host());
  if (c.skip) out.dskip = widened(dskip.host());
}

template <typename S>
void check_scan(const Case& c) {
  const auto s = shape_of(c);
  SCOPED_TRACE(testing::Message() << s.n << " tokens, C " << s.C << ", N " << s.N << ", reverse "
                                  << s.reverse << ", length " << s.length << ", bytes "
                                  << sizeof(S));
  const auto in = inputs_of<S>(c);
  const auto want = expected(c, in);
  Outputs first, second;
  run_scan<S>(c, in, first);
  run_scan<S>(c, in, second);
  if (testing::Test::HasFatalFailure()) return;
  // bfloat16 results are wrong by their rounding, 2^-9; sums and states are float32.
  const double rounding = sizeof(S) == 2 ? 4e-3 : 2e-5;
  const auto near = [&](const char* what, const Values Outputs::*part, double most) {
    EXPECT_LT(relative_error(first.*part, want.*part), most) << what;
    EXPECT_EQ(first.*part, second.*part) << what;
  };
  near("y", &Outputs::y, rounding);
  near("dx", &Outputs::dx, rounding);
  near("ddt", &Outputs::ddt, rounding);
  near("db", &Outputs::db, rounding);
  near("dc", &Outputs::dc, rounding);
  const double of_sums = sizeof(S) == 2 ? 4e-4 : 2e-5;  // the softplus of bfloat16 is approximate
  near("dA", &Outputs::dA, of_sums);
  near("dbias", &Outputs::dbias, of_sums);
  if (c.skip) near("dskip", &Outputs::dskip, 5e-5);
}

template <typename S>
class SelectiveScanKernel : public testing::Test {};
using Storages = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(SelectiveScanKernel, Storages);

TYPED_TEST(SelectiveScanKernel, AnyStateSizeAndDirection) {
  SKIP_WITHOUT_GPU();
  for (const int64_t N : {4, 8, 16, 32, 64})
    for (const bool reverse : {false, true})
      check_scan<TypeParam>({{40, 1, 2, 1, 3, 5, 150, 7, 33}, 64, N, reverse});
}

TYPED_TEST(SelectiveScanKernel, ChannelsThatDoNotFillABlock) {
  SKIP_WITHOUT_GPU();
  for (const int64_t C : {1, 3, 20, 65, 130}) {
    check_scan<TypeParam>({{30, 3}, C, 16});
    check_scan<TypeParam>({{30, 3}, C, 16, true, false, true, 5});
  }
  check_scan<TypeParam>({{33, 64}, 256, 16, false, false, true, 64});
}

TYPED_TEST(SelectiveScanKernel, CarriesStatesBetweenPieces) {
  SKIP_WITHOUT_GPU();
  for (const bool reverse : {false, true}) {
    check_scan<TypeParam>({{3000}, 64, 16, reverse, true, true, 0, 0, INFINITY, 0.01});
    check_scan<TypeParam>(
        {{700, 1, 1500, 129}, 64, 16, reverse, false, true, 0, 0, INFINITY, 0.01});
    check_scan<TypeParam>({{257, 1000}, 40, 8, reverse});
  }
}

// So many tokens that the threads of the forward pass own eight states.
TYPED_TEST(SelectiveScanKernel, ManyTokens) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({{30001, 3, 3900}, 64, 16, false, false, true, 0, 0, INFINITY, 0.01});
  check_scan<TypeParam>({{9000}, 60, 64, true, true, true, 4, 0, INFINITY, 0.01});
  check_scan<TypeParam>({{17000}, 100, 8, false, true, true, 0, 0, INFINITY, 0.01});
}

TYPED_TEST(SelectiveScanKernel, EqualLengthsNeedNoCarry) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({std::vector<int>(160, 32), 64, 16, false, true});
  check_scan<TypeParam>({std::vector<int>(7, 64), 64, 16, true, true});
  check_scan<TypeParam>({std::vector<int>(9, 33), 64, 16, false, true});
}

TYPED_TEST(SelectiveScanKernel, LimitsOfTheStepAndNoSkip) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({{100, 30}, 64, 16, false, false, false, 0, 0.2, 0.9});
}

TYPED_TEST(SelectiveScanKernel, ExtremeDecays) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({{100, 300}, 64, 16, false, false, true, 0, 0, INFINITY, 1e4});
  check_scan<TypeParam>({{100, 300}, 64, 16, false, false, true, 0, 0, INFINITY, 1e-6});
}

// A value that is not finite changes nothing in other sequences.
TYPED_TEST(SelectiveScanKernel, KeepsNonFiniteValuesInTheirSequence) {
  SKIP_WITHOUT_GPU();
  const Case c{{300, 200, 300}, 64, 16};
  const auto s = shape_of(c);
  const auto clean = inputs_of<TypeParam>(c);
  Outputs want;
  run_scan<TypeParam>(c, clean, want);
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    auto in = clean;
    in.x[(300 + 77) * s.C + 5] = bad;
    in.dt[(300 + 90) * s.C + 7] = bad;
    in.dy[(300 + 20) * s.C + 9] = bad;
    Outputs got;
    run_scan<TypeParam>(c, in, got);
    if (testing::Test::HasFatalFailure()) return;
    const auto same = [&](const char* what, const Values Outputs::*part, int64_t width) {
      for (int64_t i = 0; i < s.n * width; ++i) {
        const int64_t token = i / width;
        if (token >= 300 && token < 500) continue;
        ASSERT_EQ((got.*part)[i], (want.*part)[i]) << what << " of token " << token;
      }
    };
    same("y", &Outputs::y, s.C);
    same("dx", &Outputs::dx, s.C);
    same("ddt", &Outputs::ddt, s.C);
    same("db", &Outputs::db, s.N);
    same("dc", &Outputs::dc, s.N);
  }
}

TEST(SelectiveScan, RefusesShapesWithoutAKernel) {
  SelectiveScanShape shape{};
  shape.n = 10, shape.C = 4, shape.N = 12;
  EXPECT_FALSE(selective_scan_fits(shape));
  EXPECT_EQ(selective_scan_forward<float>({shape, {}, {}, nullptr, nullptr}, nullptr, nullptr),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hydramix::cuda
