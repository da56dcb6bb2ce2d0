// SPDX-License-Identifier: Apache-2.0
// The fused step against the formula in float64, on every instruction set.
#include "train/adamw.h"

#include <torch/optim/adamw.h>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "support/expect.h"
#include "support/optimizer.h"
#include "support/tensors.h"
#include "support/threads.h"
#include "train/schedule.h"

namespace hydramix {
namespace {

using test::take_step;

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
      const double norm = take_step(optimizer, 0.6, 7);
      EXPECT_NEAR(norm, std::sqrt(squares), 1e-12 * norm);
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

// torch.optim.AdamW decays by rate times decay; every weight of this model decays there.
TEST_P(AdamWStep, TimesRateIsTheStepOfTorch) {
  torch::manual_seed(3);
  TwoLayers model, theirs;
  model->to(torch::kFloat64);
  theirs->to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters())
      theirs->named_parameters()[item.key()].copy_(item.value());
  }
  AdamWOptions options;
  options.rate = 1e-2;
  options.decay = 0.3;
  options.decay_rule = "times_rate";
  options.groups = {". decay=0.3"};
  options.clip = kInfinity;
  FlatParameters flat(*model);
  AdamW optimizer(flat, options);
  torch::optim::AdamW reference(
      theirs->parameters(),
      torch::optim::AdamWOptions(1e-2).betas({0.9, 0.98}).eps(1e-6).weight_decay(0.3));
  for (int step = 0; step < 5; ++step) {
    flat.zero_gradients();
    for (const auto& range : flat.ranges()) {
      range.parameter.grad().copy_(torch::randn(range.parameter.sizes(), torch::kFloat64));
      theirs->named_parameters()[range.name].mutable_grad() = range.parameter.grad().clone();
    }
    take_step(optimizer, 1, 1);
    reference.step();
  }
  for (const auto& range : flat.ranges())
    test::expect_close(range.parameter.detach(), theirs->named_parameters()[range.name].detach(),
                       1e-13, range.name);
}

TEST_P(AdamWStep, GroupsHaveTheirOwnRateAndDecay) {
  AdamWOptions options;
  options.rate = 1e-2;
  options.decay = 0.1;
  options.clip = kInfinity;
  options.groups = {"^first rate=1e-3 decay=0.5", "second.weight rate=x0.25", "first|norm decay=0"};
  for (const auto* rule : {"decoupled", "times_rate"}) {
    options.decay_rule = rule;
    torch::manual_seed(4);
    TwoLayers model;
    model->to(torch::kFloat64);
    FlatParameters flat(*model);
    AdamW optimizer(flat, options);
    std::map<std::string, Plain> plain;
    for (const auto& range : flat.ranges()) {
      const auto w = range.parameter.detach().clone();
      plain[range.name] = {w, torch::zeros_like(w), torch::zeros_like(w), w};
    }
    for (int step = 1; step <= 3; ++step) {
      flat.gradients().copy_(torch::randn_like(flat.gradients()));
      for (const auto& range : flat.ranges()) {
        AdamWOptions own = options;
        const bool first = range.name.starts_with("first");
        own.rate = first ? 1e-3 : range.name == "second.weight" ? 2.5e-3 : 1e-2;
        own.decay = first                           ? 0.5
                    : range.name == "second.weight" ? 0.1
                                                    : 0;  // biases and norms: none
        if (std::string(rule) == "times_rate") own.decay *= own.rate;
        plain_step(plain[range.name], range.parameter.grad(), own, 0.7, step, true);
      }
      take_step(optimizer, 0.7, 1);
    }
    for (const auto& range : flat.ranges())
      test::expect_close(range.parameter.detach(), plain[range.name].w, 1e-13, range.name);
  }
}

TEST(ParameterGroupsTest, InvalidTextsAreErrors) {
  TwoLayers model;
  FlatParameters flat(*model);
  const auto made = [&](const std::string& text) { return parameter_groups(flat, {1, 1}, {text}); };
  EXPECT_THROW_WITH(made(""), UsageError, "it is empty");
  EXPECT_THROW_WITH(made("first"), UsageError, "it states nothing");
  EXPECT_THROW_WITH(made("first rate=fast"), UsageError, "'fast' is no number");
  EXPECT_THROW_WITH(made("first decay=-1"), UsageError, "'-1' is no number");
  EXPECT_THROW_WITH(made("first wd=1"), UsageError, "neither rate= nor decay=");
  EXPECT_THROW_WITH(made("first( rate=1"), UsageError, "no regular expression");
  EXPECT_THROW_WITH(made("third rate=1"), UsageError, "first.weight to second.bias");
  EXPECT_EQ(made("first rate=2").groups.size(), 4u);  // two rates, with decay and without
  EXPECT_EQ(parameter_groups(flat, {1, 1}, {}).groups.size(), 2u);
}

// min(d, (1 + t) / (10 + t)): after few steps the average has left the initial weights.
TEST(AdamWTest, TheAverageWarmsUp) {
  AdamWOptions options;
  options.rate = 1e-2;
  options.ema = 0.9999;
  options.ema_warmup = true;
  torch::manual_seed(6);
  TwoLayers model;
  model->to(torch::kFloat64);
  FlatParameters flat(*model);
  AdamW optimizer(flat, options);
  auto expected = flat.values().clone();
  const auto initial = flat.values().clone();
  for (int t = 0; t < 30; ++t) {
    flat.gradients().fill_(1);
    take_step(optimizer, 1, 1);
    const double d = std::min(0.9999, (1.0 + t) / (10.0 + t));
    expected = d * expected + (1 - d) * flat.values();
  }
  test::expect_close(optimizer.average(), expected, 1e-13, "average");
  const auto left = (flat.values() - optimizer.average()).norm().item<double>();
  EXPECT_LT(left, 0.25 * (flat.values() - initial).norm().item<double>());
}

TEST_P(AdamWStep, ThreadsDoNotMatter) {
  test::same_for_any_threads([] {
    torch::manual_seed(2);
    TwoLayers model;
    FlatParameters flat(*model);
    AdamW optimizer(flat, {});
    flat.gradients().copy_(torch::randn_like(flat.gradients()));
    const double norm = take_step(optimizer, 1, 3);
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

TEST(AdamWTest, AStepThatIsNotFiniteChangesNothing) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity})
    for (const bool in_loss : {true, false}) {
      TwoLayers model;
      FlatParameters flat(*model);
      AdamWOptions options;
      options.ema = 0.9;
      AdamW optimizer(flat, options);
      flat.gradients().fill_(1);
      take_step(optimizer, 1, 1);
      const auto state = [&] {
        return torch::stack(
            {flat.values(), optimizer.mean(), optimizer.square(), optimizer.average()});
      };
      const auto before = state();
      if (!in_loss) flat.gradients()[flat.gradients().numel() - 20] = bad;
      EXPECT_FALSE(std::isfinite(take_step(optimizer, 1, 1, in_loss ? bad : 0)));
      EXPECT_TRUE(torch::equal(state(), before));
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

TEST(Schedule, CosineFallsSlowlyAtBothEnds) {
  const ScheduleOptions options{.warmup = 0.1, .final = 0.2, .shape = "cosine"};
  EXPECT_DOUBLE_EQ(rate_share(options, 0, 1001), 1.0 / 101);
  EXPECT_DOUBLE_EQ(rate_share(options, 100, 1001), 1);
  EXPECT_DOUBLE_EQ(rate_share(options, 101, 1001), 1);
  // 899 steps from the peak to the end.
  for (const int64_t step : {200, 550, 900})
    EXPECT_NEAR(rate_share(options, step, 1001),
                0.6 + 0.4 * std::cos(M_PI * static_cast<double>(step - 101) / 899), 1e-15);
  EXPECT_NEAR(rate_share(options, 1000, 1001), 0.2, 1e-15);
}

TEST(Schedule, ConstantStaysAtThePeak) {
  const ScheduleOptions options{.warmup = 0.1, .final = 0.2, .shape = "constant"};
  EXPECT_DOUBLE_EQ(rate_share(options, 4, 100), 0.5);
  for (const int64_t step : {9, 10, 50, 99}) EXPECT_EQ(rate_share(options, step, 100), 1);
}

TEST(AdamW, ExchangesTheWeightsAndTheirAverageAndBack) {
  torch::manual_seed(3);
  TwoLayers model;
  FlatParameters parameters(*model);
  AdamWOptions options;
  options.ema = 0.9;
  AdamW optimizer(parameters, options);
  parameters.gradients().normal_();
  take_step(optimizer, 1, 1);
  const auto weights = parameters.values().clone(), average = optimizer.average().clone();
  ASSERT_FALSE(weights.equal(average));
  optimizer.swap_average();
  EXPECT_TRUE(parameters.values().equal(average));
  EXPECT_TRUE(optimizer.average().equal(weights));
  const auto& range = parameters.ranges()[0];
  EXPECT_TRUE(model->first->weight.equal(parameters.part(average, range)))
      << "the model multiplies by what was exchanged";
  optimizer.swap_average();
  EXPECT_TRUE(parameters.values().equal(weights));
  EXPECT_TRUE(optimizer.average().equal(average));
}

}  // namespace
}  // namespace hydramix
