// SPDX-License-Identifier: Apache-2.0
// Gradients of every registered mixer, and of the block around it, against central differences,
// also with options that change its formula.
#include "hydramix/block.h"
#include "hydramix/error.h"
#include "support/configurations.h"
#include "support/equal_gradients.h"

namespace hydramix {
namespace {

using test::Configuration;
using test::expect_gradients;
using test::random_case;

// ReLUs have kinks, which a short step rarely crosses.
double step_for(const std::string& name) {
  return name.find("tnn") != std::string::npos ? 2e-7 : test::kDifferenceStep;
}

class MixerGradient : public ::testing::TestWithParam<Configuration> {
 protected:
  static std::string name() { return GetParam().name(); }
};

TEST_P(MixerGradient, OfInputParametersAndWeights) {
  for (const uint64_t seed : {1, 2, 3}) {
    auto c = random_case(GetParam(), {.L = 19}, torch::kFloat64, seed);
    c.x.requires_grad_();
    c.params.requires_grad_();
    const auto dy = torch::randn_like(c.mixer->mix(c.x, c.params));
    std::vector<std::pair<std::string, torch::Tensor>> inputs{{"x", c.x}, {"params", c.params}};
    for (const auto& p : c.mixer->named_parameters()) inputs.emplace_back(p.key(), p.value());
    expect_gradients(
        [&] { return (c.mixer->mix(c.x, c.params) * dy).sum() + (c.params * 0).sum(); }, inputs,
        name() + ", seed " + std::to_string(seed), 1e-6, step_for(name()));
  }
}

TEST_P(MixerGradient, EqualThoseOfTheDenseProduct) {
  if (!mixer_info(GetParam().mixer).linear) GTEST_SKIP() << "this mixer is no matrix";
  for (const int64_t L : {1, 16, 17, 53}) {
    auto c = random_case(GetParam(), {.L = L}, torch::kFloat64, 4);
    const auto inputs = test::inputs_with_gradients(c);
    const auto fast = c.mixer->mix(c.x, c.params);
    const auto dense = dense_apply(c.mixer->materialize(c.params, L), c.x);
    // 1e-9: at L = 1 a normalised row leaves 1e-7 of terms of order one that cancel.
    test::expect_equal_gradients(fast, dense, inputs, 1e-9, concat(name(), " at L = ", L));
  }
}

TEST_P(MixerGradient, OfTheBlock) {
  for (const uint64_t seed : {1, 2, 3}) {
    torch::manual_seed(seed);
    BlockOptions options;
    options.mixer = GetParam().mixer;
    options.d_model = 6;
    options.headdim = 3;
    options.d_conv = static_cast<int64_t>(3 + seed);  // odd and even
    options.bias = seed == 2;
    options.mixer_options =
        GetParam().options({.qk_dim = 2,
                            .d_state = 3,
                            .groups = 2,
                            .max_length = 16,
                            .learn_initial_states = true,
                            .tile = 4,
                            // Slow sines: central differences resolve their high derivatives.
                            .filter_width = 6,
                            .filter_frequency = 1});
    Block block(options);
    block->to(torch::kFloat64);
    auto u = torch::randn({2, 11, 6}, torch::kFloat64).requires_grad_();
    const auto dy = torch::randn({2, 11, 6}, torch::kFloat64);
    const auto layout =
        Layout::padded(torch::arange(11).expand({2, 11}) < torch::tensor({11, 8}).unsqueeze(1));
    std::vector<std::pair<std::string, torch::Tensor>> inputs{{"u", u}};
    for (const auto& p : block->named_parameters()) inputs.emplace_back(p.key(), p.value());
    expect_gradients([&] { return (block->forward(u, layout) * dy).sum(); }, inputs,
                     name() + " block, seed " + std::to_string(seed), 1e-6, step_for(name()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MixerGradient,
                         ::testing::ValuesIn(test::configurations(mixer_names())),
                         test::configuration_name);

}  // namespace
}  // namespace hydramix
