// SPDX-License-Identifier: Apache-2.0
// The sum of a residual and its LayerNorm on a GPU against loops in float64 over the same rounded
// inputs.
#include "kernels/cuda/norm.h"

#include "support/cuda_rows.h"

namespace hydramix::cuda {
namespace {

struct LayerCase {
  int64_t rows, C;
  Beside beside = {};
  float eps = 3;
  bool b = true, sum = false, out = true, out_residual = false;  // which are given
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
  // If the sum is kept, the backward pass reads it.
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
  // Without b; and with the gradient of the sum only.
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

TEST(CudaLayerNorm, NoRowsGiveNoGradients) {
  SKIP_WITHOUT_GPU();
  const LayerInputs in{{}, {}, Values(40, 1.0), Values(40, 1.0), {}, {}, {}};
  const auto got = layer_on_device<float, BFloat16>(LayerCase{0, 40}, in);
  EXPECT_EQ(got.dweight, Values(40, 0.0));
  EXPECT_EQ(got.dbias, Values(40, 0.0));
}

}  // namespace
}  // namespace hydramix::cuda
