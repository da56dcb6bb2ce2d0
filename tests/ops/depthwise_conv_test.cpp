// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv.h"

#include "ops/norm.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

TEST(DepthwiseConv, FollowsItsDefinitionForEveryWidth) {
  for (const int64_t K : {1, 2, 3, 4, 7, 8})
    for (const int64_t L : {1, 2, 5, 19})
      for (const bool causal : {false, true}) {
        torch::manual_seed(K * 100 + L);
        const int64_t C = 3, centre = causal ? K - 1 : K / 2;
        const auto w = torch::randn({2, L, C}, torch::kFloat64),
                   weight = torch::randn({C, 1, K}, torch::kFloat64);
        const auto bias = torch::randn({C}, torch::kFloat64);
        auto y = bias.expand({2, L, C}).clone();
        for (int64_t t = 0; t < L; ++t)
          for (int64_t k = 0; k < K; ++k)
            if (const int64_t from = t + k - centre; from >= 0 && from < L)
              y.select(1, t) += weight.select(2, k).select(1, 0) * w.select(1, from);
        expect_close(depthwise_conv_ref(w, weight, bias, causal), y, 1e-14, "K " + std::to_string(K));
        expect_close(depthwise_conv_ref(w, weight, {}, causal), y - bias, 1e-13, "without bias");
      }
}

TEST(DepthwiseConv, OddWidthsAreWhatLibTorchComputes) {
  torch::manual_seed(1);
  const auto w = torch::randn({2, 11, 4}, torch::kFloat64),
             weight = torch::randn({4, 1, 7}, torch::kFloat64);
  const auto bias = torch::randn({4}, torch::kFloat64);
  const auto theirs = torch::conv1d(w.transpose(1, 2), weight, bias, 1, 3, 1, 4).transpose(1, 2);
  expect_close(depthwise_conv_ref(w, weight, bias, false), theirs, 1e-14, "width 7");
}

TEST(GatedRmsNorm, NormalizesThenGates) {
  const auto y = torch::tensor({{{3., 4.}}}, torch::kFloat64),
             z = torch::tensor({{{0., 2.}}}, torch::kFloat64);
  const auto out = gated_rms_norm(y, z, torch::tensor({5., 7.}, torch::kFloat64), 1e-5);
  const double scale = 1 / std::sqrt(12.5 + 1e-5);
  EXPECT_DOUBLE_EQ(out[0][0][0].item<double>(), 0);
  EXPECT_NEAR(out[0][0][1].item<double>(), 4 * scale * 7 * 2 / (1 + std::exp(-2.0)), 1e-12);
  // No division by zero for a place that mixes to nothing.
  EXPECT_TRUE(torch::isfinite(
                  gated_rms_norm(torch::zeros_like(y), z, torch::ones({2}, torch::kFloat64), 1e-5))
                  .all()
                  .item<bool>());
}

}  // namespace
}  // namespace hydramix
