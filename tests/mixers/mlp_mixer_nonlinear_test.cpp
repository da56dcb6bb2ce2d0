// SPDX-License-Identifier: Apache-2.0
// The MLP-Mixer that is not a matrix, against its definition: the law cannot check it.
#include <cmath>

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::random_case;

test::MixerCase nonlinear_case(int64_t L, int64_t hidden, torch::ScalarType type, int64_t B = 2) {
  MixerOptions options;
  options.max_length = 10;
  options.token_hidden = hidden;
  return random_case("mlp_mixer_nonlinear", {.B = B, .L = L, .heads = {2, 3}, .options = options},
                     type, 7);
}

TEST(MlpMixerNonlinear, AppliesTheNonlinearityToTheData) {
  for (const int64_t hidden : {0, 4})
    for (const int64_t L : {1, 6, 10}) {
      const auto c = nonlinear_case(L, hidden, torch::kFloat64);
      auto weights = c.mixer->named_parameters();
      const auto W1 = weights["W1"].accessor<double, 2>(), W2 = weights["W2"].accessor<double, 2>();
      const auto b1 = weights["W1_bias"].accessor<double, 1>(),
                 b2 = weights["W2_bias"].accessor<double, 1>();
      ASSERT_EQ(W1.size(0), hidden == 0 ? 10 : 4);
      auto expected = torch::zeros_like(c.x);
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t channel = 0; channel < 6; ++channel) {
          const int64_t h = channel / 3, p = channel % 3;
          std::vector<double> y(L);
          for (int64_t i = 0; i < L; ++i) y[i] = b2[i];
          for (int64_t s = 0; s < W1.size(0); ++s) {
            double inner = b1[s];
            for (int64_t j = 0; j < L; ++j) inner += W1[s][j] * c.x[b][j][h][p].item<double>();
            const double gelu = inner * 0.5 * std::erfc(-inner / std::sqrt(2.0));
            for (int64_t i = 0; i < L; ++i) y[i] += W2[i][s] * gelu;
          }
          for (int64_t i = 0; i < L; ++i) expected[b][i][h][p] = y[i];
        }
      expect_close(c.mixer->mix(c.x, c.params).detach(), expected, 1e-13, concat("L = ", L));
    }
}

TEST(MlpMixerNonlinear, IsNotAMatrixAndSaysSo) {
  const auto c = nonlinear_case(6, 0, torch::kFloat64);
  EXPECT_FALSE(mixer_info("mlp_mixer_nonlinear").linear);
  EXPECT_THROW_WITH(c.mixer->materialize(c.params, 6), UsageError,
                    "mlp_mixer_nonlinear: materialize: this mixer is no matrix; it is not linear");
  const auto y = c.mixer->mix(c.x, c.params), twice = c.mixer->mix(2 * c.x, c.params);
  EXPECT_GT(test::relative_error(twice, 2 * y), 1e-2);
}

TEST(MlpMixerNonlinear, Float32AndBfloat16AreCloseToFloat64) {
  const auto exact = nonlinear_case(10, 0, torch::kFloat64);
  const auto truth = exact.mixer->mix(exact.x, exact.params);
  const auto single = nonlinear_case(10, 0, torch::kFloat32);
  expect_close(single.mixer->mix(single.x, single.params), truth, 1e-6, "float32");
  const auto half = nonlinear_case(10, 0, torch::kBFloat16);
  const auto y = half.mixer->mix(half.x, half.params);
  const auto wide = half.mixer->mix(half.x.to(torch::kFloat32), half.params.to(torch::kFloat32));
  EXPECT_TRUE(torch::equal(y, wide.to(torch::kBFloat16)));
}

TEST(MlpMixerNonlinear, BatchRowsAreIndependentAndLongerSequencesAreRefused) {
  const auto c = nonlinear_case(8, 0, torch::kFloat64, 3);
  auto x = c.x.clone();
  x[1].fill_(std::nan(""));
  const auto y = c.mixer->mix(x, c.params), clean = c.mixer->mix(c.x, c.params);
  for (const int64_t b : {0, 2}) expect_close(y[b], clean[b], 1e-14, concat("row ", b));
  const auto longer = nonlinear_case(11, 0, torch::kFloat64);
  EXPECT_THROW_WITH(longer.mixer->mix(longer.x, longer.params), Error,
                    "a sequence of length 11 is longer than max_length = 10");
}

}  // namespace
}  // namespace hydramix
