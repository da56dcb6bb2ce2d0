// SPDX-License-Identifier: Apache-2.0
// The gated RMS norm on a GPU against loops in float64 over the same rounded inputs.
#include "kernels/cuda/norm.h"

#include "support/cuda_rows.h"

namespace hydramix::cuda {
namespace {

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
  Values out, dy, dz, dweight;

  bool operator==(const GatedResults& other) const {
    return out == other.out && dy == other.dy && dz == other.dz && dweight == other.dweight;
  }
};

template <typename S>
GatedResults gated_on_device(const GatedCase& k, const GatedInputs& in) {
  const Matrix<S> y(k.rows, k.C, k.beside, in.y), z(k.rows, k.Z, k.z_beside, in.z);
  const Matrix<S> dout(k.rows, k.C, k.beside, in.dout), out(k.rows, k.C, k.beside);
  const Matrix<S> dy(k.rows, k.C, k.beside), dz(k.rows, k.Z, k.z_beside);
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
                                                 .dweight = dweight.data(),
                                                 .workspace = workspace.data()},
                                                nullptr));
  return {out.values(), dy.values(), dz.values(), widened(dweight.host())};
}

template <typename S>
GatedResults gated_reference(const GatedCase& k, const GatedInputs& in) {
  const auto y = rounded<S>(in.y), z = rounded<S>(in.z), dout = rounded<S>(in.dout);
  const auto weight = rounded<float>(in.weight);
  GatedResults result{Values(y.size()), Values(y.size()), Values(z.size(), 0),
                      Values(weight.size(), 0)};
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
class CudaGatedNorm : public ::testing::Test {};
using Storages = ::testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(CudaGatedNorm, Storages);

TYPED_TEST(CudaGatedNorm, GatesAsTheLoopDoes) {
  SKIP_WITHOUT_GPU();
  for (const auto& k : kGatedCases) {
    SCOPED_TRACE("rows " + std::to_string(k.rows) + ", C " + std::to_string(k.C) + ", Z " +
                 std::to_string(k.Z));
    const auto in = GatedInputs::random(k);
    const auto got = gated_on_device<TypeParam>(k, in);
    const auto expected = gated_reference<TypeParam>(k, in);
    EXPECT_LT(relative_error(got.out, expected.out), kTolerance<TypeParam>);
    EXPECT_LT(relative_error(got.dy, expected.dy), kTolerance<TypeParam>);
    EXPECT_LT(relative_error(got.dz, expected.dz), kTolerance<TypeParam>);
    EXPECT_LT(relative_error(got.dweight, expected.dweight), kTolerance<float>);
  }
}

TYPED_TEST(CudaGatedNorm, GatingTwiceGivesTheSameBits) {
  SKIP_WITHOUT_GPU();
  for (const GatedCase& k : {GatedCase{600, 1536, 1536, {}, {}, 1e-5f}, GatedCase{900, 21, 7}}) {
    const auto in = GatedInputs::random(k);
    EXPECT_TRUE(gated_on_device<TypeParam>(k, in) == gated_on_device<TypeParam>(k, in));
  }
}

TYPED_TEST(CudaGatedNorm, GatesOfExtremesAreNumbers) {
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
    EXPECT_TRUE(all_finite(got.out)) << C;
    EXPECT_TRUE(all_finite(got.dy) && all_finite(got.dz) && all_finite(got.dweight)) << C;
    for (int64_t c = 0; c < C; ++c)
      if (c % 5 < 3) {
        EXPECT_NEAR(got.out[at(c)], 0, 1e-30) << c;
        EXPECT_NEAR(got.dz[at(c)], 0, 1e-30) << c;
      }
  }
}

TYPED_TEST(CudaGatedNorm, GradientsOfGatesMayReplaceTheirInputs) {
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
                                        .dweight = dweight.data(),
                                        .workspace = workspace.data()},
                                       nullptr));
    EXPECT_TRUE((GatedResults{expected.out, dout.values(), z.values(), widened(dweight.host())}) ==
                expected);
  }
}

TYPED_TEST(CudaGatedNorm, NoRowsGiveNoGradients) {
  SKIP_WITHOUT_GPU();
  const GatedCase k{0, 40, 40};
  const GatedInputs in{{}, {}, Values(40, 1.0), {}};
  EXPECT_EQ(gated_on_device<TypeParam>(k, in).dweight, Values(40, 0.0));
}

}  // namespace
}  // namespace hydramix::cuda
