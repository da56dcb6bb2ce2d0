// SPDX-License-Identifier: Apache-2.0
// The verification before timing finds wrong outputs and gradients, and the counted work follows
// from the shapes.
#include "bench/function.h"

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix::bench {
namespace {

using Tensors = std::vector<torch::Tensor>;

// The product of two vectors, entry by entry.
Function product(const torch::Tensor& a, const torch::Tensor& b) {
  return {.forward = [=] { return Tensors{a * b}; }, .inputs = {{"a", a}, {"b", b}}};
}

struct Case {
  torch::Tensor a = torch::randn({7}), b = torch::randn({7});
  Function oracle = product(leaf(a, torch::kFloat64), leaf(b, torch::kFloat64));
};

TEST(Verify, PassesWhatAgreesToRounding) {
  const Case c;
  const double error = verify("product", product(leaf(c.a), leaf(c.b)), c.oracle, 1e-6);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 2e-7);  // one rounding to float32 is 6e-8
}

TEST(Verify, FindsAWrongOutput) {
  const Case c;
  Function wrong = product(leaf(c.a), leaf(c.b));
  wrong.forward = [f = wrong.forward] { return Tensors{f()[0] + 0.01}; };
  EXPECT_THROW_WITH(verify("product", wrong, c.oracle, 1e-4), Error, "product: the output [7]");
}

TEST(Verify, FindsAWrongGradient) {
  const Case c;
  const auto a = leaf(c.a), b = leaf(c.b);
  const Function wrong{.forward = [=] { return Tensors{a * b.detach() + 0 * b}; },
                       .inputs = {{"a", a}, {"b", b}}};
  EXPECT_THROW_WITH(verify("product", wrong, c.oracle, 1e-4), Error, "the gradient of b [3, 7]");
}

TEST(Verify, ASumThatCancelsIsMeasuredByThoseThatDoNot) {
  // The gradient of the scale s is <d_output, a>; a is orthogonal to the first d_output.
  const auto first = output_gradients({torch::zeros({7}, torch::kFloat64)})[0];
  const auto random = torch::randn({7}, torch::kFloat64);
  const auto a = random - first * (first.dot(random) / first.dot(first));
  const auto scaled = [&](torch::ScalarType type) {
    const auto s = leaf(torch::ones({1}), type), v = a.to(type);
    return Function{.forward = [=] { return Tensors{s * v}; }, .inputs = {{"s", s}}};
  };
  EXPECT_LT(verify("scale", scaled(torch::kFloat32), scaled(torch::kFloat64), 1e-5), 1e-5);
}

TEST(Verify, FindsAMissingGradientAndANan) {
  const Case c;
  const auto a = leaf(c.a), b = leaf(c.b);
  const Function missing{.forward = [=] { return Tensors{a * b.detach()}; },
                         .inputs = {{"a", a}, {"b", b}}};
  EXPECT_THROW_WITH(verify("product", missing, c.oracle, 1e-4), Error, "the gradient of b");
  const Function nan{.forward = [=] { return Tensors{a * b / 0 * 0}; },
                     .inputs = {{"a", a}, {"b", b}}};
  EXPECT_THROW_WITH(verify("product", nan, c.oracle, 1e300), Error,
                    "off its float64 oracle by inf");
}

TEST(MatrixProducts, CountOperationsAndBytes) {
  // (2, 3, 5) times (7, 5)^T: 6 rows, 35 weights, 42 outputs.
  const auto f = matrix_products({{leaf(torch::randn({2, 3, 5})), leaf(torch::randn({7, 5}))}});
  EXPECT_DOUBLE_EQ(f.work("forward").flops, 2 * 6 * 35);
  EXPECT_DOUBLE_EQ(f.work("forward").bytes, 4 * (30 + 35 + 42));
  EXPECT_DOUBLE_EQ(f.work("forward_backward").flops, 3 * 2 * 6 * 35);
  EXPECT_DOUBLE_EQ(f.work("forward_backward").bytes, 4 * (3 * (30 + 35) + 2 * 42));
  const auto outputs = f.forward();
  const auto gradients = f.gradients(outputs, output_gradients(outputs));
  EXPECT_EQ(gradients[0].sizes(), (std::vector<int64_t>{2, 3, 5}));
  EXPECT_EQ(gradients[1].sizes(), (std::vector<int64_t>{7, 5}));
}

}  // namespace
}  // namespace hydramix::bench
