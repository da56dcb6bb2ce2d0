// SPDX-License-Identifier: Apache-2.0
// The fused step against the formula in float64, on every instruction set.
#include "train/adamw.h"

#include "kernels/cpu/isa.h"
#include "support/tensors.h"
#include "support/threads.h"
#include "train/schedule.h"

namespace hydramix {
namespace {

using torch::Tensor;

struct TwoLayersImpl : torch::nn::Module {
  TwoLayersImpl() {
    first = register_module("first", torch::nn::Linear(37, 111));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({111})));
    second = register_module("second", torch::nn::Linear(111, 1000));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(TwoLayers);

class AdamWStep : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

// Weight, moments and average of one parameter.
struct Plain {
  Tensor w, m, v, average;
};

void plain_step(Plain& p, const Tensor& gradient, const AdamWOptions& o, double share, double t,
                bool decays) {
  p.m = o.beta1 * p.m + (1 - o.beta1) * gradient;
  p.v = o.beta2 * p.v + (1 - o.beta2) * gradient.square();
  const auto mean = p.m / (1 - std::pow(o.beta1, t));
  const auto square = p.v / (1 - std::pow(o.beta2, t));
  p.w = (decays ? 1 - share * o.decay : 1.0) * p.w -
        share * o.rate * mean / (square.sqrt() + o.epsilon);
  p.average = o.ema * p.average + (1 - o.ema) * p.w;
}

TEST_P(AdamWStep, IsTheFormulaOverManySteps) {
  AdamWOptions options;
  options.rate = 1e-2;
  options.decay = 0.1;
  options.clip = 0.5;
  options.ema = 0.9;
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    torch::manual_seed(1);
    TwoLayers model;
    model->to(type);
    FlatParameters flat(*model);
    AdamW optimizer(flat, options);
    std::vector<Plain> plain;
    for (const auto& range : flat.ranges()) {
      const auto w = range.parameter.detach().to(torch::kFloat64, false, true);
      plain.push_back({w, torch::zeros_like(w), torch::zeros_like(w), w.clone()});
    }
    for (int step = 1; step <= 5; ++step) {
      flat.zero_gradients();
      std::vector<Tensor> gradients;
      double squares = 0;
      for (const auto& range : flat.ranges()) {
        auto g = torch::randn(range.parameter.sizes(), torch::kFloat64) * (step == 3 ? 1e-3 : 1.0);
        g = g.to(type).to(torch::kFloat64);
        range.parameter.grad().copy_(g);
        squares += (g / 7.0).square().sum().item<double>();
        gradients.push_back(g / 7.0);
      }
      const double norm = optimizer.gradient_norm(7);
      EXPECT_NEAR(norm, std::sqrt(squares), 1e-12 * norm);
      optimizer.step(0.6, 7, norm);
      const double scale = norm > 0.5 ? 0.5 / norm : 1;
      for (std::size_t i = 0; i < plain.size(); ++i)
        plain_step(plain[i], gradients[i] * scale, options, 0.6, step,
                   flat.ranges()[i].parameter.dim() == 2);
    }
    const double tolerance = type == torch::kFloat64 ? 1e-13 : 2e-6;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const auto& range = flat.ranges()[i];
      test::expect_close(range.parameter.detach(), plain[i].w, tolerance, range.name);
      test::expect_close(flat.part(optimizer.average(), range), plain[i].average, tolerance,
                         "average of " + range.name);
      test::expect_close(flat.part(optimizer.mean(), range), plain[i].m, tolerance,
                         "mean of " + range.name);
    }
  }
}

TEST_P(AdamWStep, ThreadsDoNotMatter) {
  test::same_for_any_threads([] {
    torch::manual_seed(2);
    TwoLayers model;
    FlatParameters flat(*model);
    AdamW optimizer(flat, {});
    flat.gradients().copy_(torch::randn_like(flat.gradients()));
    const double norm = optimizer.gradient_norm(3);
    optimizer.step(1, 3, norm);
    return std::vector<Tensor>{flat.values().clone(), torch::tensor(norm)};
  });
}

INSTANTIATE_TEST_SUITE_P(All, AdamWStep, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(FlatParametersTest, TheModelWorksOnTheBuffersAndItsWritesAreCounted) {
  TwoLayers model;
  const auto before = model->second->weight.detach().clone();
  FlatParameters flat(*model);
  EXPECT_TRUE(torch::equal(before, model->second->weight));
  const auto x = torch::randn({2, 111});
  model->second(x).sum().backward();
  model->second(x).sum().backward();
  const auto& range = flat.ranges()[4];
  ASSERT_EQ(range.name, "second.weight");
  EXPECT_TRUE(
      torch::allclose(flat.part(flat.gradients(), range), 2 * x.sum(0).expand({1000, 111})));
  const auto version = model->second->weight._version();
  flat.values().fill_(2);
  flat.mark_written();
  EXPECT_GT(model->second->weight._version(), version);
  EXPECT_EQ(model->second->weight[3][4].item<double>(), 2);
}

TEST(FlatParametersTest, NonFiniteGradientsShowInTheNorm) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity}) {
    TwoLayers model;
    FlatParameters flat(*model);
    flat.gradients()[flat.gradients().numel() - 20] = bad;
    EXPECT_FALSE(std::isfinite(AdamW(flat, {}).gradient_norm(1)));
  }
}

TEST(Schedule, RisesThenFallsToItsEnd) {
  const ScheduleOptions options;
  EXPECT_DOUBLE_EQ(rate_share(options, 0, 1000), 1.0 / 60);
  EXPECT_DOUBLE_EQ(rate_share(options, 59, 1000), 1);
  EXPECT_DOUBLE_EQ(rate_share(options, 60, 1000), 1);
  EXPECT_NEAR(rate_share(options, 999, 1000), 0.02, 1e-15);
  for (int64_t step = 61; step < 1000; ++step)
    ASSERT_LT(rate_share(options, step, 1000), rate_share(options, step - 1, 1000));
  for (const int64_t steps : {1, 2, 3})
    for (int64_t step = 0; step < steps; ++step) {
      EXPECT_GT(rate_share(options, step, steps), 0);
      EXPECT_LE(rate_share(options, step, steps), 1);
    }
}

}  // namespace
}  // namespace hydramix
