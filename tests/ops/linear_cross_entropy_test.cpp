// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_cross_entropy.h"

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/memory.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

struct LossCase {
  torch::Tensor x, weight, bias, targets;

  LossCase(int64_t m, int64_t d, int64_t V, torch::ScalarType type) {
    torch::manual_seed(11);
    x = torch::randn({m, d}, type).requires_grad_();
    weight = torch::randn({V, d}, type).requires_grad_();
    bias = torch::randn({V}, type).requires_grad_();
    targets = torch::randint(V, {m}, torch::kInt64);
  }
  torch::Tensor logits() const { return torch::linear(x, weight, bias); }
  torch::Tensor plain() const {
    return -logits().log_softmax(1).gather(1, targets.unsqueeze(1)).sum();
  }
};

class AnyChunk : public ::testing::TestWithParam<int64_t> {};

TEST_P(AnyChunk, IsThePlainLossWithThePlainGradients) {
  for (const auto& [type, tolerance] :
       {std::pair{torch::kFloat64, 1e-13}, {torch::kFloat32, 1e-5}}) {
    const LossCase c(37, 6, 23, type);
    const auto result = linear_cross_entropy(c.x, c.weight, c.bias, c.targets, GetParam());
    EXPECT_EQ(result.sum.scalar_type(), torch::kFloat64);
    expect_close(result.sum, c.plain().to(torch::kFloat64), tolerance, "sum");
    EXPECT_EQ(result.correct.item<int64_t>(),
              (c.logits().argmax(1) == c.targets).sum().item<int64_t>());
    const auto ours = torch::autograd::grad({result.sum * 0.7}, {c.x, c.weight, c.bias});
    const auto plain = torch::autograd::grad({c.plain() * 0.7}, {c.x, c.weight, c.bias});
    for (std::size_t i = 0; i < 3; ++i)
      expect_close(ours[i], plain[i], tolerance, concat("gradient ", i));
    EXPECT_EQ(ours[0].scalar_type(), type);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AnyChunk, ::testing::Values(1, 8, 36, 37, 1000));

TEST(LinearCrossEntropy, GradientsAreThoseOfFiniteDifferences) {
  const LossCase c(9, 4, 7, torch::kFloat64);
  test::expect_gradients(
      [&] { return linear_cross_entropy(c.x, c.weight, c.bias, c.targets, 4).sum; },
      {{"x", c.x}, {"weight", c.weight}, {"bias", c.bias}}, "cross-entropy");
}

TEST(LinearCrossEntropy, LargeLogitsDoNotOverflow) {
  LossCase c(5, 3, 11, torch::kFloat32);
  {
    torch::NoGradGuard no_grad;
    c.weight.mul_(1e4);
  }
  const auto result = linear_cross_entropy(c.x, c.weight, c.bias, c.targets, 2);
  result.sum.backward();
  expect_close(result.sum, c.plain().to(torch::kFloat64), 1e-6, "sum");
  EXPECT_TRUE(torch::isfinite(c.weight.grad()).all().item<bool>());
}

TEST(LinearCrossEntropy, NoRowsGiveZero) {
  const LossCase c(0, 3, 11, torch::kFloat32);
  const auto result = linear_cross_entropy(c.x, c.weight, c.bias, c.targets, 2);
  result.sum.backward();
  EXPECT_EQ(result.sum.item<double>(), 0);
  EXPECT_EQ(c.weight.grad().count_nonzero().item<int64_t>(), 0);
}

// Memory beyond the resulting gradients and one scaled copy of each.
TEST(LinearCrossEntropy, MemoryIsBoundedByTheChunk) {
  const int64_t d = 8, V = 2000, chunk = 16;
  const auto peak = [&](int64_t m) {
    const LossCase c(m, d, V, torch::kFloat32);
    const auto memory = test::count_memory(
        [&] { linear_cross_entropy(c.x, c.weight, c.bias, c.targets, chunk).sum.backward(); });
    const int64_t gradients = 4 * (m * d + V * d + V);
    return memory->peak() - 2 * gradients;
  };
  const int64_t logits = 4 * chunk * V;
  // All logits of m = 2048 rows would be 128 times as much.
  for (const int64_t m : {16, 256, 2048}) EXPECT_LE(peak(m), 2 * logits) << m;
  const LossCase c(2048, d, V, torch::kFloat32);
  const torch::NoGradGuard no_grad;
  const auto memory =
      test::count_memory([&] { linear_cross_entropy(c.x, c.weight, c.bias, c.targets, chunk); });
  EXPECT_LE(memory->peak(), 3 * logits / 2) << "without gradients";
}

TEST(LinearCrossEntropy, BadInputIsNamed) {
  const LossCase c(4, 3, 5, torch::kFloat32);
  EXPECT_THROW_WITH(linear_cross_entropy(c.x, c.weight, c.bias, c.targets, 0), UsageError,
                    "chunk must be at least 1; got 0");
  EXPECT_THROW_WITH(linear_cross_entropy(c.x, c.weight, c.bias, c.targets.narrow(0, 0, 3), 1),
                    Error, "targets (m) int64; got [4, 3], [5, 3], [5] and [3]");
}

}  // namespace
}  // namespace hydramix
