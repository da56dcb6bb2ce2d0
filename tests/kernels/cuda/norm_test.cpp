// SPDX-License-Identifier: Apache-2.0
// The norms on a GPU against loops in float64 over the same rounded inputs. Tolerances are
// relative, by norm: 2e-6 for float (a few roundings of 6e-8, and __expf with up to |z| of them),
// 4e-3 for bfloat16, whose rounding alone is at most 2^-8. Where a test's rows are short, eps is
// large: the gradient of a short row is what rounding leaves of two numbers that nearly cancel.
#include "kernels/cuda/norm.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

using BFloat16 = __nv_bfloat16;
using Values = std::vector<double>;

template <typename S>
constexpr double kTolerance = sizeof(S) == 2 ? 4e-3 : 2e-6;

// Columns that a wider matrix has on both sides.
struct Beside {
  int64_t before = 0, after = 0;
};

// A matrix on the device within a wider one, NaN around it.
template <typename S>
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, Beside beside, const Values& values = {})
      : rows_(rows),
        columns_(columns),
        beside_(beside),
        stride_(beside.before + columns + beside.after),
        buffer_(surrounded(values)) {}

  StridedRows<const S> in() const { return {buffer_.data() + beside_.before, stride_}; }
  StridedRows<S> out() const { return {buffer_.data() + beside_.before, stride_}; }

  // What is in the matrix; complains if something is beside it.
  Values values() const {
    const auto all = buffer_.host();
    Values result;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < stride_; ++c) {
        const double v = wide(all[static_cast<std::size_t>(r * stride_ + c)]);
        if (c >= beside_.before && c < beside_.before + columns_)
          result.push_back(v);
        else
          EXPECT_TRUE(std::isnan(v)) << "row " << r << ", column " << c << " of " << stride_;
      }
    return result;
  }

 private:
  std::vector<S> surrounded(const Values& values) const {
    std::vector<S> all(static_cast<std::size_t>(rows_ * stride_), S(NAN));
    if (values.empty()) return all;
    const auto kept = stored<S>(values);
    for (int64_t r = 0; r < rows_; ++r)
      std::copy_n(kept.begin() + r * columns_, columns_,
                  all.begin() + r * stride_ + beside_.before);
    return all;
  }

  int64_t rows_, columns_;
  Beside beside_;
  int64_t stride_;
  DeviceBuffer<S> buffer_;
};

template <typename S>
Values rounded(const Values& values) {
  return widened(stored<S>(values));
}
DeviceBuffer<float> floats(const Values& values) {
  return DeviceBuffer<float>(stored<float>(values));
}
bool all_finite(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}
std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

// ---- the gated norm

struct GatedCase {
  int64_t rows, C, Z;
  Beside beside = {}, z_beside = {};
  float eps = 3;
};

struct GatedInputs {
  Values y, z, weight, dout;

  static GatedInputs random(const GatedCase& k) {
    return {normal_values(k.rows * k.C, 1, 2), normal_values(k.rows * k.Z, 2, 2),
            normal_values(k.C, 3), normal_values(k.rows * k.C, 4)};
  }
};
struct GatedResults {
  Values out, again, dy, dz, dweight;  // again: the output that the backward pass writes

  bool operator==(const GatedResults& other) const {
    return out == other.out && again == other.again && dy == other.dy && dz == other.dz &&
           dweight == other.dweight;
  }
};

template <typename S>
GatedResults gated_on_device(const GatedCase& k, const GatedInputs& in) {
  const Matrix<S> y(k.rows, k.C, k.beside, in.y), z(k.rows, k.Z, k.z_beside, in.z);
  const Matrix<S> dout(k.rows, k.C, k.beside, in.dout), out(k.rows, k.C, k.beside);
  const Matrix<S> again(k.rows, k.C, k.beside), dy(k.rows, k.C, k.beside);
  const Matrix<S> dz(k.rows, k.Z, k.z_beside);
  const auto weight = floats(in.weight);
  const DeviceBuffer<float> dweight(k.C), workspace(gated_norm_workspace(k.C));
  EXPECT_EQ(cudaSuccess, gated_norm_forward<S>({.rows = k.rows,
                                                .C = k.C,
                                                .Z = k.Z,
                                                .eps = k.eps,
                                                .y = y.in(),
                                                .z = z.in(),
                                                .weight = weight.data(),
                                                .out = out.out()},
                                               nullptr));
  EXPECT_EQ(cudaSuccess, gated_norm_backward<S>({.rows = k.rows,
                                                 .C = k.C,
                                                 .Z = k.Z,
                                                 .eps = k.eps,
                                                 .y = y.in(),
                                                 .z = z.in(),
                                                 .weight = weight.data(),
                                                 .dout = dout.in(),
                                                 .dy = dy.out(),
                                                 .dz = dz.out(),
                                                 .out = again.out(),
                                                 .dweight = dweight.data(),
                                                 .workspace = workspace.data()},
                                                nullptr));
  return {out.values(), again.values(), dy.values(), dz.values(), widened(dweight.host())};
}

template <typename S>
GatedResults gated_reference(const GatedCase& k, const GatedInputs& in) {
  const auto y = rounded<S>(in.y), z = rounded<S>(in.z), dout = rounded<S>(in.dout);
  const auto weight = rounded<float>(in.weight);
  GatedResults result{
      Values(y.size()), {}, Values(y.size()), Values(z.size(), 0), Values(weight.size(), 0)};
  for (int64_t r = 0; r < k.rows; ++r) {
    const auto sigmoid = [&](int64_t c) { return 1 / (1 + std::exp(-z[at(r * k.Z + c % k.Z)])); };
    const auto gate = [&](int64_t c) { return z[at(r * k.Z + c % k.Z)] * sigmoid(c); };
    double squares = 0, products = 0;
    for (int64_t c = 0; c < k.C; ++c) {
      const double v = y[at(r * k.C + c)];
      squares += v * v;
      products += dout[at(r * k.C + c)] * gate(c) * weight[at(c)] * v;
    }
    const double C = static_cast<double>(k.C), scale = 1 / std::sqrt(squares / C + k.eps);
    for (int64_t c = 0; c < k.C; ++c) {
      const double v = y[at(r * k.C + c)], d = dout[at(r * k.C + c)], w = weight[at(c)];
      const double s = sigmoid(c), slope = s * (1 + z[at(r * k.Z + c % k.Z)] * (1 - s));
      result.out[at(r * k.C + c)] = v * scale * w * gate(c);
      result.dy[at(r * k.C + c)] = scale * (d * gate(c) * w - v * scale * scale * products / C);
      result.dz[at(r * k.Z + c % k.Z)] += d * v * scale * w * slope;
      result.dweight[at(c)] += d * v * scale * gate(c);
    }
  }
  result.again = result.out;
  return result;
}

const std::vector<GatedCase> kGatedCases = {
    {1, 1, 1},
    {40, 2, 1},
    {300, 5, 5},                      // value by value, blocks with several rows
    {9, 12, 12},                      // 16 bytes of floats, not of bfloat16
    {9000, 24, 24},                   // more rows than lines
    {5, 64, 64, {1, 2}, {0, 3}},      // unaligned
    {7, 64, 64, {8, 8}, {16, 0}},     // aligned within wider rows
    {6, 48, 16},                      // three channels a gate
    {9, 1536, 768, {}, {0, 1072}},    // two channels a gate
    {70, 1536, 1536, {}, {0, 1840}},  // the block's: z is a part of a wide projection
    {4, 1544, 1544},                  // threads without channels
    {3, 3080, 3080},                  // 16 values a thread
    {2, 8192, 8192},
    {2, 8200, 8200},  // too long for registers
    {2, 12289, 12289},
};

template <typename S>
class CudaNorm : public ::testing::Test {};
using Storages = ::testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(CudaNorm, Storages);

TYPED_TEST(CudaNorm, GatesAsTheLoopDoes) {
  SKIP_WITHOUT_GPU();
  for (const auto& k : kGatedCases) {
    SCOPED_TRACE("rows " + std::to_string(k.rows) + ", C " + std::to_string(k.C) + ", Z " +
                 std::to_string(k.Z));
    const auto in = GatedInputs::random(k);
    const auto got = gated_on_device<TypeParam>(k, in);
    const auto expected = gated_reference<TypeParam>(k, in);
    EXPECT_LT(relative_error(got.out, expected.out), kTolerance<TypeParam>);
    EXPECT_LT(relative_error(got.again, expected.out), kTolerance<TypeParam>);
    EXPECT_LT(relative_error(got.dy, expected.dy), kTolerance<TypeParam>);
    EXPECT_LT(relative_error(got.dz, expected.dz), kTolerance<TypeParam>);
    EXPECT_LT(relative_error(got.dweight, expected.dweight), kTolerance<float>);
  }
}

TYPED_TEST(CudaNorm, GatingTwiceGivesTheSameBits) {
  SKIP_WITHOUT_GPU();
  for (const GatedCase& k : {GatedCase{600, 1536, 1536, {}, {}, 1e-5f}, GatedCase{900, 21, 7}}) {
    const auto in = GatedInputs::random(k);
    EXPECT_TRUE(gated_on_device<TypeParam>(k, in) == gated_on_device<TypeParam>(k, in));
  }
}

TYPED_TEST(CudaNorm, GatesOfExtremesAreNumbers) {
  SKIP_WITHOUT_GPU();
  for (const int64_t C : {5, 64, 1536}) {
    const GatedCase k{4, C, C, {}, {}, 1e-5f};
    auto in = GatedInputs::random(k);
    const double gates[] = {-3e38, -1000, -100, -88, 1000};
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t r = 0; r < 4; ++r) in.z[at(r * C + c)] = gates[c % 5];
      in.y[at(C + c)] = 0;                               // a row of zeros
      in.y[at(2 * C + c)] *= 1e25;                       // whose squares overflow
      in.y[at(3 * C + c)] = c % 2 == 0 ? 3e38 : -1e-38;  // the ends of the range
    }
    const auto got = gated_on_device<TypeParam>(k, in);
    EXPECT_TRUE(all_finite(got.out) && all_finite(got.again)) << C;
    EXPECT_TRUE(all_finite(got.dy) && all_finite(got.dz) && all_finite(got.dweight)) << C;
    for (int64_t c = 0; c < C; ++c)
      if (c % 5 < 3) {
        EXPECT_NEAR(got.out[at(c)], 0, 1e-30) << c;
        EXPECT_NEAR(got.dz[at(c)], 0, 1e-30) << c;
      }
  }
}

TYPED_TEST(CudaNorm, GradientsOfGatesMayReplaceTheirInputs) {
  SKIP_WITHOUT_GPU();
  using S = TypeParam;
  for (const int64_t C : {768, 771}) {
    const GatedCase k{600, C, C};
    const auto in = GatedInputs::random(k);
    const auto expected = gated_on_device<S>(k, in);
    const Matrix<S> y(k.rows, C, {}, in.y), z(k.rows, C, {}, in.z), dout(k.rows, C, {}, in.dout);
    const auto weight = floats(in.weight);
    const DeviceBuffer<float> dweight(C), workspace(gated_norm_workspace(C));
    ASSERT_CUDA(gated_norm_backward<S>({.rows = k.rows,
                                        .C = C,
                                        .Z = C,
                                        .eps = k.eps,
                                        .y = y.in(),
                                        .z = z.in(),
                                        .weight = weight.data(),
                                        .dout = dout.in(),
                                        .dy = dout.out(),
                                        .dz = z.out(),
                                        .out = y.out(),
                                        .dweight = dweight.data(),
                                        .workspace = workspace.data()},
                                       nullptr));
    EXPECT_TRUE((GatedResults{expected.out, y.values(), dout.values(), z.values(),
                              widened(dweight.host())}) == expected);
  }
}

// ---- the layer norm

struct LayerCase {
  int64_t rows, C;
  Beside beside = {};
  float eps = 3;
  bool b = true, sum = false, out = true, out_residual = false;  // what there is
  bool dsum = false, da = true, db = true;
};
struct LayerInputs {
  Values a, b, weight, bias, dout, dout_residual, dsum;

  static LayerInputs random(const LayerCase& k) {
    const int64_t n = k.rows * k.C;
    return {normal_values(n, 1, 2), normal_values(n, 2), normal_values(k.C, 3),
            normal_values(k.C, 4),  normal_values(n, 5), normal_values(n, 6),
            normal_values(n, 7)};
  }
};
struct LayerResults {
  Values sum, out, out_residual, da, db, dweight, dbias;

  bool operator==(const LayerResults& other) const {
    return sum == other.sum && out == other.out && out_residual == other.out_residual &&
           da == other.da && db == other.db && dweight == other.dweight && dbias == other.dbias;
  }
};

// An input or output that a case has, and none otherwise.
template <typename S>
StridedRows<const S> in_if(bool given, const Matrix<S>& m) {
  return given ? m.in() : StridedRows<const S>{};
}
template <typename S>
StridedRows<S> out_if(bool wanted, const Matrix<S>& m) {
  return wanted ? m.out() : StridedRows<S>{};
}

template <typename R, typename S>
LayerResults layer_on_device(const LayerCase& k, const LayerInputs& in) {
  const Matrix<R> a(k.rows, k.C, k.beside, in.a), sum(k.rows, k.C, k.beside);
  const Matrix<R> out_residual(k.rows, k.C, k.beside), da(k.rows, k.C, k.beside);
  const Matrix<R> dout_residual(k.rows, k.C, k.beside, in.dout_residual);
  const Matrix<R> dsum(k.rows, k.C, k.beside, in.dsum);
  const Matrix<S> b(k.rows, k.C, k.beside, in.b), out(k.rows, k.C, k.beside);
  const Matrix<S> dout(k.rows, k.C, k.beside, in.dout), db(k.rows, k.C, k.beside);
  const auto weight = floats(in.weight), bias = floats(in.bias);
  const DeviceBuffer<float> dweight(k.C), dbias(k.C), workspace(layer_norm_workspace(k.C));
  EXPECT_EQ(cudaSuccess,
            (layer_norm_forward<R, S>({.rows = k.rows,
                                       .C = k.C,
                                       .eps = k.eps,
                                       .a = a.in(),
                                       .b = in_if(k.b, b),
                                       .weight = weight.data(),
                                       .bias = bias.data(),
                                       .sum = out_if(k.sum, sum),
                                       .out = out_if(k.out, out),
                                       .out_residual = out_if(k.out_residual, out_residual)},
                                      nullptr)));
  // With a sum kept, the backward pass reads that.
  EXPECT_EQ(cudaSuccess,
            (layer_norm_backward<R, S>({.rows = k.rows,
                                        .C = k.C,
                                        .eps = k.eps,
                                        .a = k.sum ? sum.in() : a.in(),
                                        .b = in_if(k.b && !k.sum, b),
                                        .weight = weight.data(),
                                        .dout = in_if(k.out, dout),
                                        .dout_residual = in_if(k.out_residual, dout_residual),
                                        .dsum = in_if(k.dsum, dsum),
                                        .da = out_if(k.da, da),
                                        .db = out_if(k.db, db),
                                        .dweight = dweight.data(),
                                        .dbias = dbias.data(),
                                        .workspace = workspace.data()},
                                       nullptr)));
  const auto values_if = [](bool wanted, const auto& m) { return wanted ? m.values() : Values{}; };
  return {values_if(k.sum, sum), values_if(k.out, out), values_if(k.out_residual, out_residual),
          values_if(k.da, da),   values_if(k.db, db),   widened(dweight.host()),
          widened(dbias.host())};
}

template <typename R, typename S>
LayerResults layer_reference(const LayerCase& k, const LayerInputs& in) {
  auto x = rounded<R>(in.a);
  const auto b = rounded<S>(in.b), dout = rounded<S>(in.dout);
  const auto dout_residual = rounded<R>(in.dout_residual), dsum = rounded<R>(in.dsum);
  const auto weight = rounded<float>(in.weight), bias = rounded<float>(in.bias);
  for (std::size_t i = 0; k.b && i < x.size(); ++i) x[i] += b[i];
  LayerResults result;
  if (k.sum) x = result.sum = rounded<R>(rounded<float>(x));
  Values out(x.size()), dx(x.size());
  result.dweight = result.dbias = Values(weight.size(), 0);
  const double C = static_cast<double>(k.C);
  for (int64_t r = 0; r < k.rows; ++r) {
    double mean = 0, variance = 0, mean_v = 0, along = 0;
    for (int64_t c = 0; c < k.C; ++c) mean += x[at(r * k.C + c)] / C;
    for (int64_t c = 0; c < k.C; ++c) variance += std::pow(x[at(r * k.C + c)] - mean, 2) / C;
    const double inverse = 1 / std::sqrt(variance + k.eps);
    const auto normed = [&](int64_t c) { return (x[at(r * k.C + c)] - mean) * inverse; };
    const auto gradient = [&](int64_t c) {
      return (k.out ? dout[at(r * k.C + c)] : 0) +
             (k.out_residual ? dout_residual[at(r * k.C + c)] : 0);
    };
    for (int64_t c = 0; c < k.C; ++c) {
      out[at(r * k.C + c)] = normed(c) * weight[at(c)] + bias[at(c)];
      result.dweight[at(c)] += gradient(c) * normed(c);
      result.dbias[at(c)] += gradient(c);
      mean_v += gradient(c) * weight[at(c)] / C;
      along += gradient(c) * weight[at(c)] * normed(c) / C;
    }
    for (int64_t c = 0; c < k.C; ++c)
      dx[at(r * k.C + c)] = inverse * (gradient(c) * weight[at(c)] - mean_v - normed(c) * along) +
                            (k.dsum ? dsum[at(r * k.C + c)] : 0);
  }
  if (k.out) result.out = out;
  if (k.out_residual) result.out_residual = out;
  if (k.da) result.da = dx;
  if (k.db) result.db = dx;
  return result;
}

template <typename R, typename S>
void expect_layer_norm_of(const LayerCase& k, const LayerInputs& in) {
  SCOPED_TRACE("rows " + std::to_string(k.rows) + ", C " + std::to_string(k.C));
  const auto got = layer_on_device<R, S>(k, in);
  const auto expected = layer_reference<R, S>(k, in);
  EXPECT_TRUE(got.sum == expected.sum);
  EXPECT_LT(relative_error(got.out, expected.out), kTolerance<S>);
  EXPECT_LT(relative_error(got.out_residual, expected.out_residual), kTolerance<R>);
  EXPECT_LT(relative_error(got.da, expected.da), kTolerance<R>);
  EXPECT_LT(relative_error(got.db, expected.db), kTolerance<S>);
  EXPECT_LT(relative_error(got.dweight, expected.dweight), kTolerance<float>);
  EXPECT_LT(relative_error(got.dbias, expected.dbias), kTolerance<float>);
}

template <typename R, typename S>
void expect_layer_norms() {
  for (LayerCase k : {LayerCase{1, 1},
                      {40, 2},
                      {300, 5},
                      {9, 12},
                      {9000, 24},
                      {5, 64, {1, 2}},
                      {7, 64, {8, 8}},
                      {70, 768},
                      {4, 776},
                      {5, 1024},
                      {3, 3080},
                      {2, 8192},
                      {2, 8200},
                      {2, 12289}})
    for (const bool post : {true, false}) {
      // A post-norm model adds, and keeps the normed values twice; a pre-norm model keeps the sum.
      k.out_residual = post;
      k.sum = k.dsum = !post;
      k.db = post || k.C % 2 == 0;
      expect_layer_norm_of<R, S>(k, LayerInputs::random(k));
    }
  // Without b; and no gradient but that of the sum.
  for (LayerCase k : {LayerCase{40, 768}, LayerCase{40, 77}}) {
    k.b = false;
    expect_layer_norm_of<R, S>(k, LayerInputs::random(k));
    k.out = k.da = false;
    k.dsum = true;
    expect_layer_norm_of<R, S>(k, LayerInputs::random(k));
  }
}

TEST(CudaLayerNorm, IsThatOfTheLoopInFloat) {
  SKIP_WITHOUT_GPU();
  expect_layer_norms<float, float>();
}
TEST(CudaLayerNorm, IsThatOfTheLoopInBfloat16) {
  SKIP_WITHOUT_GPU();
  expect_layer_norms<BFloat16, BFloat16>();
}
TEST(CudaLayerNorm, IsThatOfTheLoopWithAResidualInFloat) {
  SKIP_WITHOUT_GPU();
  expect_layer_norms<float, BFloat16>();
}

TEST(CudaLayerNorm, ALargeMeanCancelsNothing) {
  SKIP_WITHOUT_GPU();
  for (const int64_t C : {768, 771}) {
    LayerCase k{20, C, {}, 1e-12f};
    k.b = false;
    auto in = LayerInputs::random(k);
    for (double& v : in.a) v += 1e6;
    expect_layer_norm_of<float, float>(k, in);
    // Rows of one value: normed they are zero, and so is the gradient of the weight.
    std::fill(in.a.begin(), in.a.end(), 12345.678);
    const auto got = layer_on_device<float, float>(k, in);
    for (int64_t i = 0; i < k.rows * C; ++i)
      ASSERT_NEAR(got.out[at(i)], in.bias[at(i % C)], 0.01) << i;
    EXPECT_TRUE(all_finite(got.da));
  }
}

template <typename S>
void expect_numbers_of_extremes() {
  for (const int64_t C : {6, 768}) {
    LayerCase k{4, C, {}, 1e-12f};
    k.b = false;
    auto in = LayerInputs::random(k);
    for (int64_t c = 0; c < C; ++c) {
      in.a[at(c)] = c % 2 == 0 ? 3e38 : -3e38;
      in.a[at(C + c)] = 3e38;
      in.a[at(2 * C + c)] *= 1e30;
      in.a[at(3 * C + c)] = 0;
    }
    const auto got = layer_on_device<S, S>(k, in);
    EXPECT_TRUE(all_finite(got.out) && all_finite(got.da) && all_finite(got.dweight)) << C;
  }
}
TEST(CudaLayerNorm, NormsOfExtremesAreNumbers) {
  SKIP_WITHOUT_GPU();
  expect_numbers_of_extremes<float>();
  expect_numbers_of_extremes<BFloat16>();
}

TEST(CudaLayerNorm, NormingTwiceGivesTheSameBits) {
  SKIP_WITHOUT_GPU();
  for (const LayerCase& k : {LayerCase{1100, 768}, LayerCase{900, 23}}) {
    const auto in = LayerInputs::random(k);
    EXPECT_TRUE((layer_on_device<float, BFloat16>(k, in)) ==
                (layer_on_device<float, BFloat16>(k, in)));
  }
}

TEST(CudaLayerNorm, TheSumMayReplaceTheResidual) {
  SKIP_WITHOUT_GPU();
  for (const int64_t C : {24, 23}) {
    LayerCase k{9000, C};
    k.sum = true;
    const auto in = LayerInputs::random(k);
    const auto expected = layer_on_device<BFloat16, BFloat16>(k, in);
    const Matrix<BFloat16> a(k.rows, C, {}, in.a), b(k.rows, C, {}, in.b);
    const auto weight = floats(in.weight), bias = floats(in.bias);
    ASSERT_CUDA((layer_norm_forward<BFloat16, BFloat16>({.rows = k.rows,
                                                         .C = C,
                                                         .eps = k.eps,
                                                         .a = a.in(),
                                                         .b = b.in(),
                                                         .weight = weight.data(),
                                                         .bias = bias.data(),
                                                         .sum = a.out(),
                                                         .out = b.out(),
                                                         .out_residual = {}},
                                                        nullptr)));
    EXPECT_TRUE(a.values() == expected.sum);
    EXPECT_TRUE(b.values() == expected.out);
  }
}

TEST(CudaNorms, NoRowsGiveNoGradients) {
  SKIP_WITHOUT_GPU();
  const GatedCase gated{0, 40, 40};
  EXPECT_EQ(gated_on_device<float>(gated, {{}, {}, Values(40, 1.0), {}}).dweight, Values(40, 0.0));
  const LayerCase layer{0, 40};
  const auto got = layer_on_device<float, BFloat16>(
      layer, {{}, {}, Values(40, 1.0), Values(40, 1.0), {}, {}, {}});
  EXPECT_EQ(got.dweight, Values(40, 0.0));
  EXPECT_EQ(got.dbias, Values(40, 0.0));
}

// ---- times, printed if HYDRAMIX_TIME is set

void print_time(const char* name, double bytes, const std::function<cudaError_t()>& launch) {
  cudaEvent_t begin, end;
  ASSERT_CUDA(cudaEventCreate(&begin));
  ASSERT_CUDA(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 25; ++i) {
    ASSERT_CUDA(cudaEventRecord(begin));
    ASSERT_CUDA(launch());
    ASSERT_CUDA(cudaEventRecord(end));
    ASSERT_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    ASSERT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i >= 5) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  const double us = 1e3 * times[times.size() / 2];
  std::printf("%-44s %8.1f us %7.0f GB/s\n", name, us, bytes / us * 1e-3);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

TEST(CudaNorms, Times) {
  SKIP_WITHOUT_GPU();
  if (std::getenv("HYDRAMIX_TIME") == nullptr) GTEST_SKIP() << "HYDRAMIX_TIME is not set";
  using S = BFloat16;
  const int64_t n = 32768, C = 1536, D = 768, projection = 3376;
  // Zeros: values change no time, and NaN (what a buffer holds otherwise) would be no fair input.
  const auto zeros = [](const auto& buffer, int64_t bytes) {
    EXPECT_EQ(cudaSuccess, cudaMemset(buffer.data(), 0, static_cast<std::size_t>(bytes)));
  };
  const DeviceBuffer<S> y(n * C), dout(n * C), dy(n * C), out(n * C);
  const DeviceBuffer<S> wide_z(n * projection), wide_dz(n * projection);
  const DeviceBuffer<float> weight(C), bias(C), dweight(C), dbias(C);
  const DeviceBuffer<float> workspace(std::max(gated_norm_workspace(C), layer_norm_workspace(D)));
  const DeviceBuffer<float> residual(n * D), residual_out(n * D), dresidual(n * D);
  zeros(y, 2 * n * C), zeros(dout, 2 * n * C), zeros(wide_z, 2 * n * projection);
  zeros(weight, 4 * C), zeros(bias, 4 * C), zeros(residual, 4 * n * D), zeros(dresidual, 4 * n * D);

  print_time("gated forward 32768 x 1536", 6.0 * n * C, [&] {
    return gated_norm_forward<S>({.rows = n,
                                  .C = C,
                                  .Z = C,
                                  .eps = 1e-5f,
                                  .y = {y.data(), C},
                                  .z = {wide_z.data(), projection},
                                  .weight = weight.data(),
                                  .out = {out.data(), C}},
                                 nullptr);
  });
  for (const bool again : {false, true})
    print_time(again ? "gated backward 32768 x 1536, output again" : "gated backward 32768 x 1536",
               (again ? 12.0 : 10.0) * n * C, [&] {
                 return gated_norm_backward<S>(
                     {.rows = n,
                      .C = C,
                      .Z = C,
                      .eps = 1e-5f,
                      .y = {y.data(), C},
                      .z = {wide_z.data(), projection},
                      .weight = weight.data(),
                      .dout = {dout.data(), C},
                      .dy = {dy.data(), C},
                      .dz = {wide_dz.data(), projection},
                      .out = again ? StridedRows<S>{out.data(), C} : StridedRows<S>{},
                      .dweight = dweight.data(),
                      .workspace = workspace.data()},
                     nullptr);
               });
  print_time("layer forward 32768 x 768, bfloat16", 6.0 * n * D, [&] {
    return layer_norm_forward<S, S>({.rows = n,
                                     .C = D,
                                     .eps = 1e-12f,
                                     .a = {y.data(), D},
                                     .b = {dout.data(), D},
                                     .weight = weight.data(),
                                     .bias = bias.data(),
                                     .sum = {},
                                     .out = {out.data(), D},
                                     .out_residual = {}},
                                    nullptr);
  });
  print_time("layer backward 32768 x 768, bfloat16", 8.0 * n * D, [&] {
    return layer_norm_backward<S, S>({.rows = n,
                                      .C = D,
                                      .eps = 1e-12f,
                                      .a = {y.data(), D},
                                      .b = {wide_z.data(), D},
                                      .weight = weight.data(),
                                      .dout = {dout.data(), D},
                                      .dout_residual = {},
                                      .dsum = {},
                                      .da = {dy.data(), D},
                                      .db = {},
                                      .dweight = dweight.data(),
                                      .dbias = dbias.data(),
                                      .workspace = workspace.data()},
                                     nullptr);
  });
  print_time("layer forward 32768 x 768, float residual", 12.0 * n * D, [&] {
    return layer_norm_forward<float, S>({.rows = n,
                                         .C = D,
                                         .eps = 1e-12f,
                                         .a = {residual.data(), D},
                                         .b = {dout.data(), D},
                                         .weight = weight.data(),
                                         .bias = bias.data(),
                                         .sum = {},
                                         .out = {out.data(), D},
                                         .out_residual = {residual_out.data(), D}},
                                        nullptr);
  });
  print_time("layer backward 32768 x 768, float residual", 18.0 * n * D, [&] {
    return layer_norm_backward<float, S>({.rows = n,
                                          .C = D,
                                          .eps = 1e-12f,
                                          .a = {residual.data(), D},
                                          .b = {y.data(), D},
                                          .weight = weight.data(),
                                          .dout = {dout.data(), D},
                                          .dout_residual = {dresidual.data(), D},
                                          .dsum = {},
                                          .da = {residual_out.data(), D},
                                          .db = {dy.data(), D},
                                          .dweight = dweight.data(),
                                          .dbias = dbias.data(),
                                          .workspace = workspace.data()},
                                         nullptr);
  });
}

}  // namespace
}  // namespace hydramix::cuda
