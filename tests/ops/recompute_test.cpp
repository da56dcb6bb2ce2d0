// SPDX-License-Identifier: Apache-2.0
#include "ops/recompute.h"

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/memory.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

torch::Tensor leaf(std::vector<int64_t> shape) { return torch::randn(shape).requires_grad_(); }

TEST(Recompute, GradientsAreBitExactAndAccumulate) {
  torch::manual_seed(3);
  const auto w = leaf({5, 5}), unused = leaf({2}), fixed = torch::randn({5});
  const auto x = leaf({4, 5});
  const TensorFunction f = [&](const torch::Tensor& in) {
    return torch::tanh(torch::mm(in, w) + fixed) * in;
  };
  const std::vector<torch::Tensor> all{w, unused, fixed};
  f(f(x)).sum().backward();
  (2 * f(f(x))).sum().backward();
  const auto dx = x.grad().clone(), dw = w.grad().clone();
  x.mutable_grad() = w.mutable_grad() = torch::Tensor();
  const auto twice = [&] { return recomputed(f, recomputed(f, x, all), all); };
  twice().sum().backward();
  (2 * twice()).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), dx));
  EXPECT_TRUE(torch::equal(w.grad(), dw));
  EXPECT_FALSE(unused.grad().defined());
}

TEST(Recompute, ParametersGetGradientsOfAConstantInput) {
  const auto w = leaf({3, 3});
  const auto x = torch::randn({2, 3});
  const TensorFunction f = [&](const torch::Tensor& in) { return torch::mm(in, w).exp(); };
  recomputed(f, x, {w}).sum().backward();
  const auto found = w.grad().clone();
  EXPECT_TRUE(torch::equal(found, torch::autograd::grad({f(x).sum()}, {w})[0]));
}

TEST(Recompute, KeepsOnlyTheInput) {
  const auto w = leaf({16, 16});
  const auto x = leaf({64, 16});
  const TensorFunction f = [&](const torch::Tensor& in) {
    auto y = in;
    for (int i = 0; i < 10; ++i) y = torch::tanh(torch::mm(y, w));
    return y;
  };
  torch::Tensor y;
  const auto memory = test::count_memory([&] { y = recomputed(f, x, {w}); });
  EXPECT_EQ(memory->now(), static_cast<int64_t>(y.nbytes()));
}

TEST(Recompute, RunsOnceWithoutAGraph) {
  int calls = 0;
  const TensorFunction f = [&](const torch::Tensor& in) {
    ++calls;
    return in * 2;
  };
  EXPECT_FALSE(recomputed(f, torch::ones({2}), {}).requires_grad());
  EXPECT_EQ(calls, 1);
  const auto x = leaf({2});
  recomputed(f, x, {}).sum().backward();
  EXPECT_EQ(calls, 3);
}

TEST(Recompute, HasNoSecondDerivative) {
  const auto x = leaf({2});
  const auto y = recomputed([](const torch::Tensor& in) { return in * in; }, x, {}).sum();
  EXPECT_THROW_WITH(torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true), Error,
                    "recompute: has no second derivative");
}

}  // namespace
}  // namespace hydramix
