// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/complex_scan.h"

#include <complex>
#include <numeric>

#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

using BFloat16 = __nv_bfloat16;
using Values = std::vector<double>;

enum class Factors {
  usual,    // |lambda|^2 uniform in [0, 1), any angle
  lasting,  // |lambda| between 0.999 and 1: a sequence is remembered as a whole
  extreme,  // 0, 1, -1, i, -i, almost 1, and so small that its square is 0
};

struct Case {
  std::vector<int> lengths;  // of the sequences
  int64_t C;
  bool uniform = false;  // tell the kernel that all lengths are equal
  int64_t extra = 0;     // columns of all rows that belong to others
  Factors factors = Factors::usual;
};

ComplexScanShape shape_of(const Case& c) {
  ComplexScanShape s{};
  s.n = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0});
  s.C = c.C;
  s.length = c.uniform ? c.lengths.front() : 0;
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

struct Inputs {
  Values re, im, x, dy;
};
struct Outputs {
  Values y, dx, dre, dim;
};

template <typename S>
Inputs inputs_of(const Case& c) {
  const auto s = shape_of(c);
  Inputs in;
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  const std::complex<double> extremes[] = {0, 1, -1, {0, 1}, {0, -1}, 1 - 1e-12, {1e-200, -1e-200}};
  for (int64_t i = 0; i < s.C; ++i) {
    const double part = uniform(generator), angle = 2 * M_PI * uniform(generator);
    const double size = c.factors == Factors::lasting ? 1 - 1e-3 * part : std::sqrt(part);
    const auto lambda = c.factors == Factors::extreme ? extremes[i % 7] : std::polar(size, angle);
    in.re.push_back(lambda.real()), in.im.push_back(lambda.imag());
  }
  in.x = widened(stored<S>(normal_values(s.n * s.C, 2)));
  in.dy = widened(stored<S>(normal_values(s.n * 2 * s.C, 3)));
  return in;
}

// The recurrence and its derivative, token by token, in float64. The backward pass reads the states
// as they were stored.
template <typename S>
Outputs expected(const Case& c, const Inputs& in) {
  const int64_t C = c.C;
  Outputs out{Values(in.dy.size()), Values(in.x.size()), Values(in.re.size()),
              Values(in.re.size())};
  const auto rounded = [](double v) { return wide(S(static_cast<float>(v))); };
  int64_t begin = 0;
  for (const int length : c.lengths) {
    for (int64_t i = 0; i < C; ++i) {
      const std::complex<double> lambda(in.re[i], in.im[i]);
      std::complex<double> h = 0, g = 0;
      for (int64_t t = begin; t < begin + length; ++t) {
        h = lambda * h + in.x[t * C + i];
        out.y[2 * t * C + i] = h.real(), out.y[(2 * t + 1) * C + i] = h.imag();
      }
      for (int64_t t = begin + length - 1; t >= begin; --t) {
        g = std::conj(lambda) * g +
            std::complex<double>(in.dy[2 * t * C + i], in.dy[(2 * t + 1) * C + i]);
        out.dx[t * C + i] = g.real();
        if (t == begin) continue;
        const std::complex<double> before(rounded(out.y[2 * (t - 1) * C + i]),
                                          rounded(out.y[(2 * t - 1) * C + i]));
        const auto product = std::conj(before) * g;
        out.dre[i] += product.real(), out.dim[i] += product.imag();
      }
    }
    begin += length;
  }
  return out;
}

template <typename S>
void run_scan(const Case& c, const Inputs& in, Outputs& out) {
  const auto s = shape_of(c);
  const int64_t one = s.C + c.extra, two = 2 * s.C + c.extra;  // lengths of rows
  const DeviceBuffer<int2> bounds(bounds_of_lengths(c.lengths));
  const DeviceBuffer<double> re(in.re), im(in.im), dre(s.C), dim(s.C);
  const DeviceBuffer<S> x(beside<S>(in.x, s.C, c.extra)), dy(beside<S>(in.dy, 2 * s.C, c.extra)),
      y(s.n * two), dx(s.n * one);
  const DeviceBuffer<unsigned char> forward_space(
      static_cast<int64_t>(complex_scan_forward_workspace(s)));
  const DeviceBuffer<unsigned char> backward_space(
      static_cast<int64_t>(complex_scan_backward_workspace(s)));
  const ComplexScanForward<S> forward{
      s, re.data(), im.data(), {x.data(), one}, {y.data(), two}, forward_space.data()};
  const ComplexScanBackward<S> backward{s,
                                        re.data(),
                                        im.data(),
                                        {y.data(), two},
                                        {dy.data(), two},
                                        {dx.data(), one},
                                        dre.data(),
                                        dim.data(),
                                        backward_space.data()};
  ASSERT_CUDA(complex_scan_forward<S>(forward, bounds.data(), nullptr));
  ASSERT_CUDA(complex_scan_backward<S>(backward, bounds.data(), nullptr));
  out = {without(y.host(), 2 * s.C, c.extra), without(dx.host(), s.C, c.extra), dre.host(),
         dim.host()};
}

template <typename S>
void check_scan(const Case& c) {
  SCOPED_TRACE(testing::Message() << shape_of(c).n << " tokens, C " << c.C << ", uniform "
                                  << c.uniform << ", extra " << c.extra << ", factors "
                                  << static_cast<int>(c.factors));
  const auto in = inputs_of<S>(c);
  const auto want = expected<S>(c, in);
  Outputs first, second;
  run_scan<S>(c, in, first);
  run_scan<S>(c, in, second);
  if (testing::Test::HasFatalFailure()) return;
  const auto near = [&](const char* what, const Values Outputs::*part, double tolerance) {
    EXPECT_LT(relative_error(first.*part, want.*part), tolerance) << what;
    EXPECT_EQ(first.*part, second.*part) << what;
  };
  // The only roundings other than those of float64 are those of stored results.
  const double unit = sizeof(S) == 2 ? 0x1p-9 : 0x1p-24;
  near("y", &Outputs::y, unit);
  near("dx", &Outputs::dx, unit);
  // A state on the boundary between two stored values may be rounded the other way.
  near("dre", &Outputs::dre, sizeof(S) == 2 ? 1e-4 : 1e-9);
  near("dim", &Outputs::dim, sizeof(S) == 2 ? 1e-4 : 1e-9);
}

template <typename S>
class ComplexScanKernel : public testing::Test {};
using ComplexStorage = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(ComplexScanKernel, ComplexStorage);

TYPED_TEST(ComplexScanKernel, AnyNumberOfChannels) {
  SKIP_WITHOUT_GPU();
  for (const int64_t C : {1, 2, 3, 7, 64, 65, 130, 256, 258, 301})
    check_scan<TypeParam>({{40, 70, 200}, C});
}

TYPED_TEST(ComplexScanKernel, SequencesOfOddLengths) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({{1}, 8});
  check_scan<TypeParam>({{1, 1, 2, 3, 4, 5, 8, 9, 63, 64, 65, 1, 127, 128, 129, 1}, 12});
  check_scan<TypeParam>({{64, 64, 128, 64, 1}, 12});
  check_scan<TypeParam>({{63, 1, 64, 2, 62, 500}, 12});
}

TYPED_TEST(ComplexScanKernel, CarriesStatesBetweenPieces) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({{3000}, 6, true, 0, Factors::lasting});
  check_scan<TypeParam>({{700, 1, 1800, 129, 256, 64}, 10, false, 0, Factors::lasting});
  check_scan<TypeParam>({{64 * 17, 64 * 16 + 1}, 6, false, 0, Factors::lasting});
  // Pieces longer than the shortest.
  check_scan<TypeParam>({{40000}, 2, false, 0, Factors::lasting});
}

TYPED_TEST(ComplexScanKernel, SequencesOfEqualLength) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({std::vector<int>(9, 33), 6, true, 0, Factors::lasting});
  check_scan<TypeParam>({std::vector<int>(5, 64), 6, true, 0, Factors::lasting});
  // So many channels that pieces are whole sequences, two in each but the last.
  check_scan<TypeParam>({std::vector<int>(35, 33), 8192, true, 0, Factors::lasting});
}

TYPED_TEST(ComplexScanKernel, ExtremeFactors) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({{150, 300, 1}, 14, false, 0, Factors::extreme});
}

TYPED_TEST(ComplexScanKernel, RowsOfWiderTensors) {
  SKIP_WITHOUT_GPU();
  for (const int64_t extra : {1, 2, 8}) check_scan<TypeParam>({{100, 70}, 10, false, extra});
}

TYPED_TEST(ComplexScanKernel, NoTokens) {
  SKIP_WITHOUT_GPU();
  check_scan<TypeParam>({{}, 5});
}

// Float32 is as exact after 20000 tokens as after one. A factor rounded to float32 would be off by
// 20000 times 6e-8.
TEST(ComplexScan, KeepsItsDigitsOverLongSequences) {
  SKIP_WITHOUT_GPU();
  const Case c{{20000}, 1};
  auto in = inputs_of<float>(c);
  in.re = {0.99999 * std::cos(1.0)}, in.im = {0.99999 * std::sin(1.0)};
  for (auto& v : in.x) v = 0;
  in.x[0] = 1;
  Outputs out;
  run_scan<float>(c, in, out);
  if (testing::Test::HasFatalFailure()) return;
  const auto last = std::polar(std::pow(0.99999, 19999), 19999.0);
  EXPECT_NEAR(out.y[2 * 19999], last.real(), 1e-7 * std::abs(last));
  EXPECT_NEAR(out.y[2 * 19999 + 1], last.imag(), 1e-7 * std::abs(last));
}

// A value that is not finite changes nothing in other sequences or channels.
TYPED_TEST(ComplexScanKernel, KeepsNonFiniteValuesInTheirSequence) {
  SKIP_WITHOUT_GPU();
  // The middle sequence shares pieces with both others.
  const Case c{{310, 200, 330}, 6, false, 0, Factors::lasting};
  const auto clean = inputs_of<TypeParam>(c);
  Outputs want;
  run_scan<TypeParam>(c, clean, want);
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    auto in = clean;
    for (const int64_t t : {310, 377, 509})
      in.x[t * c.C + 5] = in.dy[2 * t * c.C + 2] = in.dy[(2 * t + 1) * c.C + 2] = bad;
    Outputs got;
    run_scan<TypeParam>(c, in, got);
    if (testing::Test::HasFatalFailure()) return;
    const auto same = [&](const char* what, const Values Outputs::*part, int64_t width,
                          int64_t spoilt) {
      for (std::size_t i = 0; i < (want.*part).size(); ++i) {
        const int64_t token = static_cast<int64_t>(i) / width;
        if (token >= 310 && token < 510 && static_cast<int64_t>(i) % c.C == spoilt) continue;
        ASSERT_EQ((got.*part)[i], (want.*part)[i]) << what << " of token " << token;
      }
      EXPECT_FALSE(std::isfinite((got.*part)[400 * width + spoilt])) << what;
    };
    same("y", &Outputs::y, 2 * c.C, 5);
    same("dx", &Outputs::dx, c.C, 2);
  }
}

TEST(ComplexScan, RefusesShapesThatAreNone) {
  ComplexScanShape shape{};
  shape.n = 10, shape.C = 0;
  EXPECT_EQ(
      complex_scan_forward<float>({shape, nullptr, nullptr, {}, {}, nullptr}, nullptr, nullptr),
      cudaErrorInvalidValue);
  shape.C = 4, shape.length = 3;
  EXPECT_EQ(
      complex_scan_forward<float>({shape, nullptr, nullptr, {}, {}, nullptr}, nullptr, nullptr),
      cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hydramix::cuda
