// SPDX-License-Identifier: Apache-2.0
// The norms' kernels against LibTorch in float64, on every instruction set.
#include "ops/norm.h"

#include <cmath>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;
using torch::Tensor;

constexpr double kEps = 1e-5;

TEST(GatedRmsNorm, NormalizesThenGates) {
  const auto y = torch::tensor({{{3., 4.}}}, torch::kFloat64),
             z = torch::tensor({{{0., 2.}}}, torch::kFloat64);
  const auto out = gated_rms_norm(y, z, torch::tensor({5., 7.}, torch::kFloat64), 1e-5);
  const double scale = 1 / std::sqrt(12.5 + 1e-5);
  EXPECT_DOUBLE_EQ(out[0][0][0].item<double>(), 0);
  EXPECT_NEAR(out[0][0][1].item<double>(), 4 * scale * 7 * 2 / (1 + std::exp(-2.0)), 1e-12);
  // No division by zero for a place with zero output.
  EXPECT_TRUE(torch::isfinite(
                  gated_rms_norm(torch::zeros_like(y), z, torch::ones({2}, torch::kFloat64), 1e-5))
                  .all()
                  .item<bool>());
}

// A call of either norm: two tensors of rows and the weights.
struct NormCase {
  bool gated;
  std::vector<Tensor> in;  // y (n, C), z (n, Z), weight; or a, b (n, C), weight, bias

  Tensor run() const {
    return gated ? gated_rms_norm(in[0], in[1], in[2], kEps)
                 : add_layer_norm(in[0], in[1], in[2], in[3], kEps);
  }
  Tensor reference() const {
    return gated ? gated_rms_norm_ref(in[0], in[1], in[2], kEps)
                 : torch::layer_norm(in[0] + in[1], {in[0].size(-1)}, in[2], in[3], kEps);
  }
  NormCase to(torch::ScalarType type) const {
    NormCase c = *this;
    for (auto& t : c.in) t = t.detach().to(type);
    return c;
  }
};

struct NormSizes {
  int64_t n = 5, C = 20, Z = 20;
};

NormCase random_norm(bool gated, const NormSizes& s, uint64_t seed) {
  torch::manual_seed(seed);
  const auto normal = [](std::vector<int64_t> shape) {
    return torch::randn(shape, torch::kFloat64);
  };
  if (gated) return {true, {normal({s.n, s.C}), normal({s.n, s.Z}), normal({s.C})}};
  return {false, {normal({s.n, s.C}), normal({s.n, s.C}), normal({s.C}), normal({s.C})}};
}

// The output, then the gradient of every input.
std::vector<Tensor> everything_of_norm(NormCase c, const Tensor& dy, bool reference = false) {
  for (auto& t : c.in) t = t.detach().clone().requires_grad_();
  const auto y = reference ? c.reference() : c.run();
  y.backward(dy);
  std::vector<Tensor> all{y.detach()};
  for (const auto& t : c.in) all.push_back(t.grad());
  return all;
}

void expect_norm_equals_reference(const NormCase& c, double tolerance, const std::string& what) {
  const auto dy = torch::randn_like(c.in[0]);
  const auto fast = everything_of_norm(c, dy),
             plain = everything_of_norm(c, dy, /*reference=*/true);
  for (std::size_t i = 0; i < fast.size(); ++i)
    expect_close(fast[i], plain[i], tolerance, what + ", " + std::to_string(i));
  EXPECT_TRUE(torch::equal(c.run(), fast[0])) << what << ": without a graph";
}

class Norm : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  void SetUp() override { kernels::use_instruction_set(std::get<0>(GetParam())); }
  void TearDown() override { kernels::use_instruction_set(""); }
  static bool gated() { return std::get<1>(GetParam()); }
  static NormCase random(const NormSizes& s, uint64_t seed) {
    return random_norm(gated(), s, seed);
  }
};

TEST_P(Norm, EqualsItsDefinitionForAnyRowsAndChannels) {
  for (const int64_t C : {1, 3, 16, 17, 1536})
    for (const int64_t n : {1, 127, 128, 129, 300}) {
      if (C == 1536 && n > 129) continue;
      // One channel's LayerNorm is zero, and its gradient rounding error.
      if (C == 1 && !gated()) continue;
      // One channel's RMS norm is its sign up to eps = 1e-5, so its gradient is of that order.
      expect_norm_equals_reference(random({n, C, C}, C + n), C == 1 ? 1e-9 : 1e-12,
                                   "C " + std::to_string(C) + ", n " + std::to_string(n));
    }
}

TEST_P(Norm, Float32IsCloseToFloat64) {
  const auto c = random({300, 777, 777}, 1);
  const auto dy = torch::randn_like(c.in[0]);
  const auto wide = everything_of_norm(c, dy),
             single = everything_of_norm(c.to(torch::kFloat32), dy.to(torch::kFloat32));
  for (std::size_t i = 0; i < wide.size(); ++i)
    expect_close(single[i], wide[i], 2e-6, std::to_string(i));
}

TEST_P(Norm, Bfloat16IsStorageOnly) {
  auto rounded = random({150, 37, 37}, 2).to(torch::kFloat32), wide = rounded;
  for (const int i : {0, 1}) {
    rounded.in[i] = rounded.in[i].to(torch::kBFloat16);
    wide.in[i] = rounded.in[i].to(torch::kFloat32);
  }
  const auto dy = torch::randn_like(rounded.in[0]);
  const auto a = everything_of_norm(rounded, dy),
             b = everything_of_norm(wide, dy.to(torch::kFloat32));
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(torch::equal(a[i], b[i].to(a[i].scalar_type()))) << i;
  EXPECT_EQ(a[1].scalar_type(), torch::kBFloat16);
  EXPECT_EQ(a[3].scalar_type(), torch::kFloat32);
}

TEST_P(Norm, ReadsStridedAndMisalignedRows) {
  auto c = random({140, 37, 37}, 3).to(torch::kFloat32);
  const auto dy = torch::randn_like(c.in[0]);
  const auto plain = everything_of_norm(c, dy);
  const auto inside = [](const Tensor& t) {
    const auto wider = torch::full({t.size(0), t.size(1) + 3}, NAN, t.options());
    wider.narrow(1, 1, t.size(1)).copy_(t);
    return wider.narrow(1, 1, t.size(1));
  };
  for (const int i : {0, 1}) c.in[i] = inside(c.in[i]).requires_grad_();
  ASSERT_FALSE(c.in[0].is_contiguous());
  const auto y = c.run();
  EXPECT_TRUE(torch::equal(y, plain[0]));
  const auto grads = torch::autograd::grad({y}, {c.in[0], c.in[1]}, {inside(dy)});
  for (const int i : {0, 1}) EXPECT_TRUE(torch::equal(grads[i], plain[i + 1])) << i;
  for (const int i : {0, 1}) c.in[i] = c.in[i].detach().t().contiguous().t();
  EXPECT_TRUE(torch::equal(c.run(), plain[0])) << "columns side by side";
  for (auto& t : c.in)
    if (t.dim() == 1) t = torch::stack({t, t}, 1).select(1, 0);
  EXPECT_TRUE(torch::equal(c.run(), plain[0])) << "strided weights";
}

TEST_P(Norm, LeadingDimensionsAreRows) {
  auto c = random({30, 6, 6}, 4);
  const auto flat = c.run();
  for (const int i : {0, 1}) c.in[i] = c.in[i].view({2, 5, 3, 6});
  EXPECT_TRUE(torch::equal(c.run(), flat.view({2, 5, 3, 6})));
  for (const int i : {0, 1}) c.in[i] = c.in[i].flatten()[0].expand({2, 5, 3, 6});
  expect_close(c.run(), c.reference(), 1e-12, "expanded");
}

TEST_P(Norm, AcceptsExpandedGradients) {
  const auto c = random({140, 7, 7}, 5);
  const auto ones = everything_of_norm(c, torch::ones_like(c.in[0]));
  auto x = c.in[0].clone().requires_grad_();
  NormCase{c.gated, {x, c.in[1], c.in[2], c.in.back()}}.run().sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), ones[1]));
}

TEST_P(Norm, GivesTheSameBitsForAnyThreadsAndAnyRows) {
  const auto c = random({400, 67, 67}, 6).to(torch::kFloat32);
  const auto dy = torch::randn_like(c.in[0]);
  const auto one = test::same_for_any_threads([&] { return everything_of_norm(c, dy); });
  auto some = c;
  for (const int i : {0, 1}) some.in[i] = c.in[i].narrow(0, 130, 9);
  const auto alone = everything_of_norm(some, dy.narrow(0, 130, 9));
  for (const int i : {0, 1, 2}) EXPECT_TRUE(torch::equal(alone[i], one[i].narrow(0, 130, 9))) << i;
}

TEST_P(Norm, AcceptsRowsOfZeroHugeAndTinyValues) {
  // 1e18 squared is 1e36; the sum of seventeen of these still fits in float32.
  for (const double scale : {0.0, 1e-30, 1e-18, 1e9, 1e18}) {
    auto c = random({4, 17, 17}, 7).to(torch::kFloat32).to(torch::kFloat64);
    c.in[0] = (c.in[0] * scale).to(torch::kFloat32).to(torch::kFloat64);
    if (!gated()) c.in[1].zero_();
    const auto dy = torch::randn_like(c.in[0]).to(torch::kFloat32).to(torch::kFloat64);
    const auto wide = everything_of_norm(c, dy, /*reference=*/true);
    const auto single = everything_of_norm(c.to(torch::kFloat32), dy.to(torch::kFloat32));
    for (std::size_t i = 0; i < wide.size(); ++i)
      expect_close(single[i], wide[i], 1e-5,
                   "scale " + std::to_string(scale) + ", " + std::to_string(i));
  }
}

TEST_P(Norm, SubtractsTheMeanBeforeSquaring) {
  if (gated()) return;
  auto c = random({4, 100, 100}, 8).to(torch::kFloat32);
  c.in[0] += 1e4;
  // Deviations of 1 under a mean of 1e4 are known to 1e4 x 6e-8.
  expect_close(c.run(), c.to(torch::kFloat64).reference(), 1e-3, "mean 1e4");
}

TEST_P(Norm, ANanStaysInItsRow) {
  for (const int which : {0, 1}) {
    auto c = random({130, 20, 20}, 9);
    const auto dy = torch::randn_like(c.in[0]);
    const auto clean = everything_of_norm(c, dy);
    c.in[which][57][3] = NAN;
    const auto dirty = everything_of_norm(c, dy);
    for (const int i : {0, 1, 2}) {
      EXPECT_TRUE(torch::equal(dirty[i].narrow(0, 0, 57), clean[i].narrow(0, 0, 57)));
      EXPECT_TRUE(torch::equal(dirty[i].narrow(0, 58, 72), clean[i].narrow(0, 58, 72)));
    }
    EXPECT_TRUE(std::isnan(dirty[0][57][3].item<double>()));
    // A gate belongs to its channel; a normed value to all of its row.
    EXPECT_EQ(torch::isnan(dirty[0][57]).sum().item<int64_t>(), gated() && which == 1 ? 1 : 20);
  }
}

TEST_P(Norm, NoRowsGiveZeroGradientsOfTheWeights) {
  const auto c = random({0, 6, 6}, 10);
  const auto all = everything_of_norm(c, torch::zeros({0, 6}, torch::kFloat64));
  EXPECT_EQ(all[0].sizes(), (std::vector<int64_t>{0, 6}));
  for (std::size_t i = 3; i < all.size(); ++i)
    EXPECT_TRUE(torch::equal(all[i], torch::zeros({6}, torch::kFloat64))) << i;
}

TEST_P(Norm, GradientsAreComputedOnlyForInputsThatNeedThem) {
  const auto c = random({140, 7, 7}, 11);
  const auto dy = torch::randn_like(c.in[0]);
  const auto all = everything_of_norm(c, dy);
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    auto one = c;
    one.in[i] = c.in[i].clone().requires_grad_();
    one.run().backward(dy);
    EXPECT_TRUE(torch::equal(one.in[i].grad(), all[i + 1])) << i;
  }
}

TEST_P(Norm, OneTensorMayBeBothInputs) {
  auto c = random({9, 7, 7}, 12);
  c.in[0].requires_grad_();
  c.in[1] = c.in[0];
  const auto dy = torch::randn_like(c.in[0]);
  expect_close(torch::autograd::grad({c.run()}, {c.in[0]}, {dy})[0],
               torch::autograd::grad({c.reference()}, {c.in[0]}, {dy})[0], 1e-12, "both");
}

TEST_P(Norm, SecondDerivativesAndChangedInputsAreRefused) {
  auto c = random({4, 6, 6}, 13);
  c.in[0].requires_grad_();
  EXPECT_THROW_WITH(
      torch::autograd::grad({c.run().sum()}, {c.in[0]}, {}, {}, /*create_graph=*/true), Error,
      "norm: has no second derivative");
  const auto y = c.run();
  c.in[1].add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error) << "the inputs are needed as they were";
}

INSTANTIATE_TEST_SUITE_P(All, Norm,
                         ::testing::Combine(::testing::ValuesIn(kernels::instruction_sets()),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           return (std::get<1>(test.param) ? "Gated" : "Layer") +
                                  std::get<0>(test.param);
                         });

TEST(GatedRmsNorm, OneGateMayServeSeveralChannels) {
  for (const auto& name : kernels::instruction_sets()) {
    kernels::use_instruction_set(name);
    for (const auto& [C, Z] : {std::pair{6, 3}, {34, 17}, {32, 16}, {12, 1}, {3072, 1536}})
      expect_norm_equals_reference(random_norm(true, {130, C, Z}, C), 1e-12,
                                   name + ", C " + std::to_string(C) + ", Z " + std::to_string(Z));
  }
  kernels::use_instruction_set("");
}

TEST(AddLayerNorm, GradientsOfTheTwoInputsAreTheirOwn) {
  auto c = random_norm(false, {4, 6, 6}, 14);
  for (const int i : {0, 1}) c.in[i].requires_grad_();
  c.run().sum().backward();
  const auto kept = c.in[1].grad().clone();
  c.in[0].mutable_grad().add_(1);
  EXPECT_TRUE(torch::equal(c.in[1].grad(), kept));
}

TEST(NormErrors, BadShapesAndTypesAreNamed) {
  const auto c = random_norm(true, {4, 6, 6}, 15);
  const auto &y = c.in[0], &z = c.in[1], &w = c.in[2];
  EXPECT_THROW_WITH(gated_rms_norm({}, z, w, kEps), Error, "gated norm: expected two tensors");
  EXPECT_THROW_WITH(gated_rms_norm(y, z, w.narrow(0, 0, 5), kEps), Error,
                    "got [4, 6], [4, 6] and [5]");
  EXPECT_THROW_WITH(gated_rms_norm(y, z.narrow(0, 0, 3), w, kEps), Error, "got [4, 6], [3, 6]");
  EXPECT_THROW_WITH(gated_rms_norm(y, z.narrow(1, 0, 4), w, kEps), Error,
                    "6 channels cannot be gated by 4");
  EXPECT_THROW_WITH(gated_rms_norm(y, z.narrow(1, 0, 0), w, kEps), Error, "gated by 0");
  EXPECT_THROW_WITH(gated_rms_norm(y.narrow(1, 0, 0), z, w.narrow(0, 0, 0), kEps), Error,
                    "expected two tensors (..., C) and a weight (C)");
  EXPECT_THROW_WITH(gated_rms_norm(y, z.to(torch::kFloat32), w, kEps), Error,
                    "inputs must agree in dtype");
  EXPECT_THROW_WITH(gated_rms_norm(y, z, w.to(torch::kFloat32), kEps), Error,
                    "weights be in their arithmetic");
  EXPECT_THROW_WITH(gated_rms_norm(y.to(torch::kInt64), z.to(torch::kInt64), w, kEps), Error,
                    "must be float32, float64 or bfloat16");
  EXPECT_THROW_WITH(add_layer_norm(y, z.narrow(1, 0, 3), w, w, kEps), Error,
                    "layer norm: the two inputs, and weight and bias, must have equal shapes");
  EXPECT_THROW_WITH(add_layer_norm(y, z, w, w.narrow(0, 0, 5), kEps), Error, "equal shapes");
  EXPECT_THROW_WITH(add_layer_norm(y, z, w, {}, kEps), Error, "equal shapes");
}

}  // namespace
}  // namespace hydramix
