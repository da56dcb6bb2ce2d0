// SPDX-License-Identifier: Apache-2.0
// The packed scan's kernels against the materialised matrices in float64, on every instruction set.
#include <cmath>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "scan_case.h"

namespace hydramix {
namespace {

using test::dense_scan;
using test::everything_of_scan;
using test::expect_close;
using test::expect_equals_dense;
using test::inside_wider_rows;
using test::random_scan;
using test::ScanSizes;

class Scan : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(Scan, EqualsTheMatrixAtAwkwardLengths) {
  for (const int64_t L : {1, 2, 3, 15, 16, 17, 31, 32, 33, 67})
    expect_equals_dense(random_scan({L}, {}, L), 1e-12, "L = " + std::to_string(L));
}

TEST_P(Scan, EqualsTheMatrixAtAwkwardSizes) {
  int seed = 100;
  for (const ScanSizes& z :
       std::vector<ScanSizes>{{.H = 1, .P = 1, .G = 1, .N = 1, .tile = 1},
                              {.H = 7, .P = 17, .G = 1, .N = 19, .tile = 13},
                              {.H = 6, .P = 33, .G = 6, .N = 2, .tile = 64},
                              {.H = 9, .P = 16, .G = 3, .N = 33, .tile = 17},
                              {.H = 2, .P = 64, .G = 1, .N = 64, .tile = 1000}}) {
    ++seed;
    expect_equals_dense(random_scan({37, 5}, z, seed), 1e-12,
                        "sizes " + std::to_string(seed - 100));
  }
}

TEST_P(Scan, TakesAnyChunkLength) {
  const auto expected = random_scan({1500, 3}, {.H = 2, .G = 1}, 14).run();
  for (const int64_t tile : {1, 7, 1024, 1 << 20}) {
    auto c = random_scan({1500, 3}, {.H = 2, .G = 1}, 14);
    c.settings.tile = tile;
    expect_close(c.run(), expected, 1e-12, "tile " + std::to_string(tile));
  }
}

TEST_P(Scan, RespectsTheLimitsOfDt) {
  auto c = random_scan({50}, {}, 5);
  c.settings.dt_low = 0.4;
  c.settings.dt_high = 1.1;
  expect_equals_dense(c, 1e-12, "limits");
}

TEST_P(Scan, TakesExtremeStepsAndDecays) {
  // Steps of zero, of 1e30, and both in one sequence; a huge step must not absorb later ones.
  for (const double extreme : {-800.0, 60.0, 1e30}) {
    auto c = random_scan({70}, {}, 6);
    for (auto* d : {&c.forward, &c.backward}) d->dt.index_put_({torch::arange(0, 70, 7)}, extreme);
    ASSERT_TRUE(torch::isfinite(c.run()).all().item<bool>());
    // Errors are relative to the scale of the output, which a step of 1e30 makes huge.
    expect_close(c.run(), dense_scan(c), 1e-12, "dt " + std::to_string(extreme));
    const auto single = c.to(torch::kFloat32).run();
    ASSERT_TRUE(torch::isfinite(single).all().item<bool>());
    expect_close(single, dense_scan(c), 2e-6, "float32, dt " + std::to_string(extreme));
  }
  for (const double rate : {-1e-30, -1e30}) {
    auto c = random_scan({70}, {}, 7);
    c.A.fill_(rate);
    expect_close(c.run(), dense_scan(c), 1e-12, "A " + std::to_string(rate));
  }
}

TEST_P(Scan, ReadsStridedAndMisalignedRows) {
  const auto c = random_scan({45}, {}, 10).to(torch::kFloat32);
  auto strided = c;
  for (auto& [name, t] : strided.inputs())
    if (t->dim() > 1) *t = inside_wider_rows(*t);
  ASSERT_FALSE(strided.x.is_contiguous());
  EXPECT_TRUE(torch::equal(strided.run(), c.run()));
  strided.x = c.x.permute({2, 1, 0}).contiguous().permute({2, 1, 0});
  EXPECT_TRUE(torch::equal(strided.run(), c.run()));
}

TEST_P(Scan, AcceptsExpandedGradients) {
  auto c = random_scan({45}, {}, 14);
  const auto ones = everything_of_scan(c, torch::ones_like(c.x));
  c.x.requires_grad_();
  c.run().sum().backward();  // an expanded gradient: all its strides are zero
  EXPECT_TRUE(torch::equal(c.x.grad(), ones[1]));
}

INSTANTIATE_TEST_SUITE_P(All, Scan, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(ScanSizes, EmptySequencesMayOutnumberTheChunks) {
  expect_equals_dense(random_scan({0, 0, 0, 40, 0, 0}, {}, 15), 1e-12, "empty sequences");
}

TEST(ScanSizes, ATileLongerThanTheSequencesCostsNothing) {
  auto c = random_scan({20, 9}, {.tile = 32}, 16);
  const auto y = c.run();
  c.settings.tile = int64_t{1} << 20;  // its square would be a terabyte
  EXPECT_TRUE(torch::equal(c.run(), y));
}

TEST(ScanSizes, NoTokensGiveZeroGradientsOfTheWeights) {
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{}, {0, 0}}) {
    auto c = random_scan(lengths, {}, 17);
    for (auto& [name, t] : c.inputs()) t->requires_grad_();
    const auto y = c.run();
    EXPECT_EQ(y.sizes(), c.x.sizes());
    y.sum().backward();
    for (const auto* t : {&c.A, &c.dt_bias})
      EXPECT_TRUE(torch::equal(t->grad(), torch::zeros_like(*t)));
  }
}

// With a slow decay the state is carried over many chunks. For constant inputs x = b = c = 1 the
// last output has the closed form dt (1 - a^L) / (1 - a).
TEST(ScanSizes, HoldsOverAHundredThousandPlaces) {
  const int64_t L = 100000;
  const double dt = 0.01, A = -0.02, a = std::exp(dt * A);
  const auto f64 = torch::kFloat64;
  const ScanDirection forward{torch::full({L, 1}, std::log(std::expm1(dt)), f64),
                              torch::ones({L, 1, 1}, f64), torch::ones({L, 1, 1}, f64)};
  const auto zero = torch::zeros({1}, f64);
  const auto y = packed_scan(torch::ones({L, 1, 1}, f64), forward, {}, zero,
                             torch::full({1}, A, f64), zero, Sequences({0, L}), {.shift = 0});
  const double end = y[L - 1][0][0].item<double>();
  EXPECT_NEAR(end, dt * (1 - std::pow(a, static_cast<double>(L))) / (1 - a), 1e-9 * end);
}

TEST(GradientsOfTheScan, AreComputedOnlyForInputsThatNeedThem) {
  auto c = random_scan({40, 3}, {}, 18);
  const auto dy = torch::randn_like(c.x);
  auto all = c;
  for (auto& [name, t] : all.inputs()) *t = t->clone().requires_grad_();
  all.run().backward(dy);
  for (std::size_t i = 0; i < c.inputs().size(); ++i) {
    auto one = c;
    const auto [name, leaf] = one.inputs()[i];
    *leaf = leaf->clone().requires_grad_();
    one.run().backward(dy);
    EXPECT_TRUE(torch::equal(leaf->grad(), all.inputs()[i].second->grad())) << name;
  }
}

TEST(GradientsOfTheScan, OneTensorMayBeSeveralInputs) {
  auto c = random_scan({40, 3}, {}, 19);
  c.forward.b.requires_grad_();
  c.forward.c = c.backward.b = c.backward.c = c.forward.b;
  const auto dy = torch::randn_like(c.x);
  expect_close(torch::autograd::grad({c.run()}, {c.forward.b}, {dy})[0],
               torch::autograd::grad({dense_scan(c)}, {c.forward.b}, {dy})[0], 1e-12, "b = c");
}

TEST(GradientsOfTheScan, SecondOnesAndChangedInputsAreRefused) {
  auto c = random_scan({9}, {}, 20);
  c.x.requires_grad_();
  EXPECT_THROW_WITH(torch::autograd::grad({c.run().sum()}, {c.x}, {}, {}, /*create_graph=*/true),
                    Error, "scan: has no second derivative");
  const auto y = c.run();
  c.forward.b.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error) << "b is needed as it was";
}

TEST(ScanErrors, BadShapesAndOffsetsAreNamed) {
  const auto c = random_scan({8}, {}, 13);
  auto bad = c;
  bad.offsets = {0, 9};
  EXPECT_THROW_WITH(bad.run(), Error, "offsets must rise from 0 to the 8 tokens");
  bad.offsets = {0, 5, 3, 8};
  EXPECT_THROW_WITH(bad.run(), Error, "offsets must rise");
  bad.offsets = {};
  EXPECT_THROW_WITH(bad.run(), Error, "offsets must rise");
  bad = c;
  bad.forward.b = bad.forward.b.narrow(0, 0, 7);
  EXPECT_THROW_WITH(bad.run(), Error, "b must be");
  bad = c;
  bad.forward.dt = bad.forward.dt.to(torch::kFloat32);
  EXPECT_THROW_WITH(bad.run(), Error, "dt must be");
  bad = c;
  bad.delta = bad.delta.narrow(1, 0, 3);
  EXPECT_THROW_WITH(bad.run(), Error, "delta must be");
  bad = c;
  bad.forward = bad.backward = {};
  EXPECT_THROW_WITH(bad.run(), Error, "neither direction");
  bad = c;
  for (auto* d : {&bad.forward, &bad.backward})
    d->b = d->c = torch::zeros({8, 3, 3}, torch::kFloat64);
  EXPECT_THROW_WITH(bad.run(), Error, "groups that divide the heads");
}

}  // namespace
}  // namespace hydramix
