// SPDX-License-Identifier: Apache-2.0
// The law mix(x, params) == materialize(params, L) @ x, for every registered mixer, also with
// options that change its formula.
#include "support/configurations.h"

namespace hydramix {
namespace {

using test::Configuration;
using test::expect_close;
using test::random_case;

class MixerLaw : public ::testing::TestWithParam<Configuration> {
 protected:
  static std::string name() { return GetParam().name(); }
};

TEST_P(MixerLaw, MixEqualsDenseProduct) {
  // 1, tile +- 1, primes, and several tiles; tile is 16.
  for (const int64_t L : {1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 97, 200}) {
    const auto c = random_case(GetParam(), {.L = L}, torch::kFloat64, 17 + L);
    // 1e-12: the products of up to 200 terms of order one round to about 1e-14.
    expect_close(c.mixer->mix(c.x, c.params), dense_apply(c.mixer->materialize(c.params, L), c.x),
                 1e-12, name() + " at L = " + std::to_string(L));
  }
}

TEST_P(MixerLaw, HoldsForLayoutsWithinEachSequence) {
  const auto c = random_case(GetParam(), {.B = 1, .L = 40}, torch::kFloat64, 3);
  const auto layout = Layout::packed(torch::tensor({0, 9, 9, 26, 40}));
  const auto M = c.mixer->materialize(c.params, 40, layout);
  const auto y = layout.to_rows(c.mixer->mix(c.x, c.params, layout));
  expect_close(y, dense_apply(M, layout.to_rows(c.x)), 1e-12, name());
}

TEST_P(MixerLaw, Float32IsAsGoodAsTheNaiveProduct) {
  const int64_t L = 130;
  const auto exact = random_case(GetParam(), {.L = L}, torch::kFloat64, 5);
  const auto single = random_case(GetParam(), {.L = L}, torch::kFloat32, 5);
  const auto truth = exact.mixer->mix(exact.x, exact.params);
  const double naive = test::relative_error(
      dense_apply(single.mixer->materialize(single.params, L), single.x), truth);
  // The inputs are rounded to float32 as well, hence a few epsilons for both.
  EXPECT_LE(test::relative_error(single.mixer->mix(single.x, single.params), truth),
            2 * naive + 1e-6);
}

TEST_P(MixerLaw, Bfloat16InAndOutIsComputedInFloat32) {
  const int64_t L = 33;
  const auto c = random_case(GetParam(), {.L = L}, torch::kBFloat16, 5);
  const auto y = c.mixer->mix(c.x, c.params);
  ASSERT_EQ(y.scalar_type(), torch::kBFloat16);
  const auto wide = c.mixer->mix(c.x.to(torch::kFloat32), c.params.to(torch::kFloat32));
  EXPECT_TRUE(torch::equal(y, wide.to(torch::kBFloat16)));
}

TEST_P(MixerLaw, NonContiguousInputsGiveTheSame) {
  const auto c = random_case(GetParam(), {.L = 19}, torch::kFloat64, 7);
  const auto x = c.x.permute({3, 2, 1, 0}).contiguous().permute({3, 2, 1, 0});
  const auto params = torch::cat({c.params, c.params}, 2).narrow(2, 0, c.params.size(2));
  ASSERT_FALSE(x.is_contiguous());
  expect_close(c.mixer->mix(x, params), c.mixer->mix(c.x, c.params), 1e-14, name());
}

TEST_P(MixerLaw, IsLinearInX) {
  const auto c = random_case(GetParam(), {.L = 21}, torch::kFloat64, 9);
  const auto other = torch::randn_like(c.x);
  const auto sum = c.mixer->mix(2.5 * c.x - other, c.params);
  expect_close(sum, 2.5 * c.mixer->mix(c.x, c.params) - c.mixer->mix(other, c.params), 1e-12,
               name());
}

TEST_P(MixerLaw, EqualSeedsGiveEqualBits) {
  const auto a = random_case(GetParam(), {.L = 50}, torch::kFloat32, 11);
  const auto b = random_case(GetParam(), {.L = 50}, torch::kFloat32, 11);
  EXPECT_TRUE(torch::equal(a.mixer->mix(a.x, a.params), b.mixer->mix(b.x, b.params)));
}

TEST_P(MixerLaw, BatchRowsAreIndependent) {
  const auto c = random_case(GetParam(), {.B = 3, .L = 20}, torch::kFloat64, 13);
  auto x = c.x.clone(), params = c.params.clone();
  x[1].fill_(std::nan(""));
  params[1].fill_(std::nan(""));
  const auto y = c.mixer->mix(x, params);
  const auto clean = c.mixer->mix(c.x, c.params);
  expect_close(y[0], clean[0], 1e-13, name());
  expect_close(y[2], clean[2], 1e-13, name());
}

TEST_P(MixerLaw, StaysFiniteForExtremeParameters) {
  for (const double scale : {0.0, 1e-30, 40.0, 600.0}) {
    auto c = random_case(GetParam(), {.L = 37}, torch::kFloat64, 15);
    const auto params = c.params * scale;
    const auto y = c.mixer->mix(c.x, params);
    ASSERT_TRUE(torch::isfinite(y).all().item<bool>())
        << name() << " with parameters times " << scale;
    expect_close(y, dense_apply(c.mixer->materialize(params, 37), c.x), 1e-10, name());
  }
}

TEST_P(MixerLaw, TakesCudaTensorsWhereThereIsACudaDevice) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "this machine or this LibTorch has no CUDA";
  auto c = random_case(GetParam(), {.L = 97}, torch::kFloat64, 19);
  const auto y = c.mixer->mix(c.x, c.params);
  const auto layout =
      Layout::padded(torch::arange(97).expand({2, 97}) < torch::tensor({97, 41}).unsqueeze(1));
  const auto padded = c.mixer->mix(c.x, c.params, layout);
  c.mixer->to(torch::kCUDA);
  const auto x = c.x.to(torch::kCUDA), params = c.params.to(torch::kCUDA);
  expect_close(c.mixer->mix(x, params).cpu(), y, 1e-12, name());
  expect_close(c.mixer->mix(x, params, layout).cpu(), padded, 1e-12, name());
}

INSTANTIATE_TEST_SUITE_P(All, MixerLaw,
                         ::testing::ValuesIn(test::configurations(matrix_mixer_names())),
                         test::configuration_name);

}  // namespace
}  // namespace hydramix
