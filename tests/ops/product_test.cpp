// SPDX-License-Identifier: Apache-2.0
#include "ops/product.h"

#include <limits>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/product.h"
#include "ops/product_rate.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;
using torch::Tensor;

std::string sizes(int64_t m, int64_t n, int64_t k) {
  return std::to_string(m) + " x " + std::to_string(k) + " x " + std::to_string(n);
}

// max |a - b| relative to the sum of |terms|, which bounds rounding errors whether or not the terms
// cancel.
void expect_product(const Tensor& c, const Tensor& a, const Tensor& b, const std::string& what) {
  const auto wide = [](const Tensor& t) { return t.detach().to(torch::kFloat64); };
  const auto expected = torch::matmul(wide(a), wide(b));
  const auto terms = torch::matmul(wide(a).abs(), wide(b).abs());
  ASSERT_EQ(c.sizes(), expected.sizes()) << what;
  if (c.numel() == 0) return;
  // A run of 192 terms rounds at every step, and so does every addition of runs.
  const double epsilon = c.scalar_type() == torch::kFloat64 ? 1.2e-16 : 6e-8;
  const auto error = ((wide(c) - expected).abs() / (terms + 1e-300)).max().item<double>();
  EXPECT_LE(error, 64 * epsilon) << what;
}

class Product : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

// Sizes on both sides of a tile, a panel, a run and a group of runs.
TEST_P(Product, EqualsTheNaiveProductAtAwkwardSizes) {
  torch::manual_seed(1);
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const int64_t m : {0, 1, 5, 6, 7, 13, 14, 15, 29, 100})
      for (const int64_t n : {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 70})
        for (const int64_t k : {0, 1, 3, 4, 191, 192, 193, 770}) {
          if (m > 15 && n > 33 && k > 193) continue;
          const auto options = torch::TensorOptions(type);
          const auto a = torch::randn({m, k}, options), b = torch::randn({k, n}, options);
          expect_product(matrix_product(a, b), a, b, sizes(m, n, k));
        }
}

TEST_P(Product, ManyRunsAndManyRows) {
  torch::manual_seed(2);
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1100, 40, 10},
                                {700, 33, 800},
                                {30, 20, 5000},
                                {3, 2000, 50}}) {
    const auto a = torch::randn({m, k}), b = torch::randn({k, n});
    expect_product(matrix_product(a, b), a, b, sizes(m, n, k));
  }
}

TEST_P(Product, OperandsMayHaveAnyStrides) {
  torch::manual_seed(3);
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const auto options = torch::TensorOptions(type);
    const int64_t m = 37, n = 45, k = 203;
    const std::vector<Tensor> left{
        torch::randn({m, k}, options),
        torch::randn({k, m}, options).t(),
        torch::randn({m + 3, k + 5}, options).narrow(0, 1, m).narrow(1, 2, k),
        torch::randn({k + 1, m + 2}, options).narrow(0, 1, k).narrow(1, 1, m).t(),
        torch::randn({m, 2 * k}, options).view({m, k, 2}).select(2, 1),
        torch::randn({1, k}, options).expand({m, k}),
        torch::randn({m, 1}, options).expand({m, k}),
        torch::randn({}, options).expand({m, k})};
    std::vector<Tensor> right;
    for (const auto& t : left) right.push_back(t.narrow(0, 0, 1).expand({n, k}).t());
    for (const auto& t : {torch::randn({k, n}, options), torch::randn({n, k}, options).t(),
                          torch::randn({k, n + 9}, options).narrow(1, 4, n),
                          torch::randn({n + 2, k + 1}, options).narrow(0, 1, n).narrow(1, 1, k).t(),
                          torch::randn({k, n, 3}, options).select(2, 2)})
      right.push_back(t);
    for (std::size_t i = 0; i < left.size(); ++i)
      for (std::size_t j = 0; j < right.size(); ++j)
        expect_product(matrix_product(left[i], right[j]), left[i], right[j],
                       std::to_string(i) + ", " + std::to_string(j));
  }
}

// The bits of a row do not depend on the rest of the batch. Servers rely on this.
TEST_P(Product, ARowHasTheSameBitsWhateverTheOtherRowsAre) {
  torch::manual_seed(4);
  const auto x = torch::randn({1500, 770}), w = torch::randn({105, 770}),
             bias = torch::randn({105});
  const auto all = linear_map(x, w, bias);
  for (const int64_t rows : {1, 2, 6, 13, 14, 100, 1400})
    for (const int64_t first : {0, 1, 14, 99})
      EXPECT_TRUE(
          torch::equal(linear_map(x.narrow(0, first, rows), w, bias), all.narrow(0, first, rows)))
          << rows << " rows from " << first;
  auto other = torch::full_like(x, std::numeric_limits<float>::infinity());
  other[77] = x[77];
  EXPECT_TRUE(torch::equal(linear_map(other, w, bias)[77], all[77])) << "beside rows of infinities";
  // Nor do a product's columns depend on each other.
  EXPECT_TRUE(torch::equal(linear_map(x, w.narrow(0, 31, 40), bias.narrow(0, 31, 40)),
                           all.narrow(1, 31, 40)));
  // In a larger batch of matrices.
  EXPECT_TRUE(torch::equal(matrix_product(x.view({5, 300, 770}), w.t())[3],
                           matrix_product(x, w.t()).narrow(0, 900, 300)));
}

TEST_P(Product, ThreadsDoNotMatter) {
  torch::manual_seed(5);
  const auto x = torch::randn({333, 400}).requires_grad_(),
             w = torch::randn({600, 400}).requires_grad_();
  test::same_for_any_threads([&] {
    const auto y = linear_map(x, w);
    auto all = torch::autograd::grad({y}, {x, w}, {torch::ones_like(y)});
    all.push_back(y.detach());
    return all;
  });
}

TEST_P(Product, MatricesAreBroadcast) {
  torch::manual_seed(6);
  const auto a = torch::randn({3, 1, 9, 20}), b = torch::randn({4, 20, 33});
  expect_product(matrix_product(a, b), a, b, "3 x 1 by 4");
  const auto one = torch::randn({20, 7});
  expect_product(matrix_product(a, one), a, one, "by one");
  expect_product(matrix_product(one.t(), b), one.t(), b, "one by 4");
  const auto many = torch::randn({500, 2, 3}), few = torch::randn({500, 3, 2});
  expect_product(matrix_product(many, few), many, few, "many small ones");
  const auto turned = torch::randn({9, 20, 6, 2}).permute({3, 2, 0, 1});
  expect_product(matrix_product(turned, one), turned, one, "permuted");
}

INSTANTIATE_TEST_SUITE_P(All, Product, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(Matmul, WritesOrAddsIntoAnExistingTensor) {
  torch::manual_seed(7);
  const auto a = torch::randn({2, 40, 300}), b = torch::randn({2, 300, 50});
  const auto holder = torch::randn({2, 42, 60}), c = holder.narrow(1, 1, 40).narrow(2, 5, 50);
  const auto before = holder.clone();
  matrix_product_into(c, a, b);
  expect_product(c, a, b, "into");
  matrix_product_into(c, a, b, /*add=*/true);
  expect_product(c / 2, a, b, "on top");
  auto expected = before;
  expected.narrow(1, 1, 40).narrow(2, 5, 50).copy_(c);
  EXPECT_TRUE(torch::equal(holder, expected)) << "something around the result was written";
  const auto narrow = torch::zeros({40, 50}, torch::kBFloat16);
  matrix_product_into(narrow, a[0].to(torch::kBFloat16), b[0].to(torch::kBFloat16));
  EXPECT_TRUE(
      torch::equal(narrow, matrix_product(a[0].to(torch::kBFloat16), b[0].to(torch::kBFloat16))));
}

TEST(Matmul, GradientsOfAnyOrder) {
  torch::manual_seed(8);
  const auto options = torch::TensorOptions(torch::kFloat64);
  const auto leaf = [&](std::vector<int64_t> shape) {
    return torch::randn(shape, options).requires_grad_();
  };
  const auto compare = [](const std::string& what, const std::vector<Tensor>& inputs,
                          const Tensor& fast, const Tensor& plain) {
    expect_close(fast, plain, 1e-13, what);
    // The gradient of a function of the gradients: first and second derivatives at once.
    const auto second = [&](const Tensor& y) {
      const auto first = torch::autograd::grad({y.pow(2).sum()}, inputs, {}, true, true);
      Tensor sum = torch::zeros({}, y.options());
      for (const auto& g : first) sum = sum + g.pow(3).sum();
      auto all = torch::autograd::grad({sum}, inputs);
      all.insert(all.end(), first.begin(), first.end());
      return all;
    };
    const auto ours = second(fast), theirs = second(plain);
    for (std::size_t i = 0; i < ours.size(); ++i)
      expect_close(ours[i].detach(), theirs[i].detach(), 1e-11, what + ", " + std::to_string(i));
  };
  const auto x = leaf({2, 5, 7}), w = leaf({4, 7}), bias = leaf({4});
  compare("linear", {x, w, bias}, linear_map(x, w, bias), torch::linear(x, w, bias));
  const auto a = leaf({3, 1, 5, 7}), b = leaf({2, 7, 4});
  compare("broadcast", {a, b}, matrix_product(a, b), torch::matmul(a, b));
  const auto one = leaf({7, 3});
  compare("one on the right", {a, one}, matrix_product(a, one), torch::matmul(a, one));
}

TEST(Matmul, OnlyNeededGradientsAreComputed) {
  const auto x = torch::randn({3, 4}), w = torch::randn({5, 4}).requires_grad_();
  const auto y = linear_map(x, w);
  y.sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(w.grad().defined());
  torch::NoGradGuard no_grad;
  EXPECT_FALSE(linear_map(x, w).requires_grad());
}

TEST(Matmul, Bfloat16IsRoundedOnce) {
  torch::manual_seed(9);
  const auto a = torch::randn({17, 300}).to(torch::kBFloat16),
             b = torch::randn({300, 20}).to(torch::kBFloat16);
  const auto wide = matrix_product(a.to(torch::kFloat32), b.to(torch::kFloat32));
  EXPECT_TRUE(torch::equal(matrix_product(a, b), wide.to(torch::kBFloat16)));
  EXPECT_TRUE(torch::equal(linear_map(a, b.t().contiguous()), wide.to(torch::kBFloat16)));
}

TEST(Matmul, BadShapesAreNamed) {
  EXPECT_THROW_WITH(matrix_product(torch::zeros({2, 3}), torch::zeros({4, 5})), Error,
                    "got [2, 3]");
  EXPECT_THROW_WITH(matrix_product(torch::zeros({2, 3}), torch::zeros({3, 5}, torch::kFloat64)),
                    Error, "of one dtype");
  EXPECT_THROW_WITH(linear_map(torch::zeros({2, 3}), torch::zeros({5, 4})), Error, "got [2, 3]");
}

TEST(ProductRates, ASlowProductGivesAWarningWithAdvice) {
  EXPECT_TRUE(product_warnings({.fma_peak = 100, .ours = 80, .libtorch = 75}).empty());
  const auto slow = product_warnings({.fma_peak = 100, .ours = 49, .libtorch = 75});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_NE(slow[0].find("reach 49 %"), std::string::npos) << slow[0];
  const auto blas = product_warnings({.fma_peak = 100, .ours = 80, .libtorch = 18});
  ASSERT_EQ(blas.size(), 1u);
  EXPECT_NE(blas[0].find("LibTorch's own products reach 18 %"), std::string::npos) << blas[0];
  setenv("HYDRAMIX_ISA", "SSE4", 1);
  const auto forced = product_warnings({.fma_peak = 100, .ours = 20, .libtorch = 75});
  unsetenv("HYDRAMIX_ISA");
  ASSERT_EQ(forced.size(), 1u);
  EXPECT_NE(forced[0].find("HYDRAMIX_ISA=SSE4"), std::string::npos) << forced[0];
}

TEST(ProductRates, AreMeasured) {
  const auto rates = measure_product_rates();
  EXPECT_GT(rates.fma_peak, 0);
  EXPECT_GT(rates.ours, 0);
  EXPECT_GT(rates.libtorch, 0);
  EXPECT_LT(rates.ours, 1.2 * rates.fma_peak);  // a rate above the peak would mean a wrong peak
}

}  // namespace
}  // namespace hydramix
