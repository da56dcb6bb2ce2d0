// SPDX-License-Identifier: Apache-2.0
// Cauchy mixers and attention at lengths where mix() does not build the matrix.
#include "hydramix/error.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::MixerCase;
using test::random_case;

CaseSizes rows_of(int64_t B, int64_t L) {
  return {.B = B, .L = L, .heads = {2, 3}, .options = {.qk_dim = 3, .max_length = 2048}};
}

// A negative bias could make nodes that are not positive.
MixerCase positive_case(const std::string& name, const CaseSizes& n, torch::ScalarType dtype,
                        uint64_t seed) {
  auto c = random_case(name, n, dtype, seed);
  torch::NoGradGuard no_grad;
  for (auto& p : c.mixer->named_parameters())
    if (p.key() == "bias") p.value().abs_();
  return c;
}

std::vector<torch::Tensor> differentiable(MixerCase& c) {
  std::vector<torch::Tensor> inputs{c.x.requires_grad_(), c.params.requires_grad_()};
  for (const auto& p : c.mixer->parameters()) inputs.push_back(p);
  return inputs;
}

std::vector<torch::Tensor> gradients(const torch::Tensor& y, const torch::Tensor& dy,
                                     const std::vector<torch::Tensor>& inputs) {
  auto g = torch::autograd::grad({y}, inputs, {dy}, false, false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < g.size(); ++i)
    if (!g[i].defined()) g[i] = torch::zeros_like(inputs[i]);
  return g;
}

// mix() and its gradients against those of the matrix, over the rows of a layout.
void expect_law(MixerCase& c, const Layout& layout, double tolerance, const std::string& what) {
  const auto inputs = differentiable(c);
  const auto y = c.mixer->mix(c.x, c.params, layout);
  const auto M = c.mixer->materialize(c.params, c.x.size(1), layout);
  const auto dense = layout.from_rows(dense_apply(M, layout.to_rows(c.x)));
  expect_close(y, dense, tolerance, what);
  const auto dy = torch::randn_like(y);
  const auto g = gradients(y, dy, inputs), expected = gradients(dense, dy, inputs);
  for (std::size_t i = 0; i < g.size(); ++i)
    expect_close(g[i], expected[i], tolerance, what + ", gradient " + std::to_string(i));
}

// Only the product with the matrix has second derivatives.
bool builds_matrix(MixerCase& c, const Layout& layout = {}) {
  try {
    const auto y = c.mixer->mix(c.x.requires_grad_(), c.params, layout).sum();
    torch::autograd::grad({y}, {c.x}, {}, true, /*create_graph=*/true);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void expect_finite_and_close(MixerCase& c, double tolerance, const std::string& what) {
  const auto inputs = differentiable(c);
  const auto y = c.mixer->mix(c.x, c.params);
  expect_close(y, dense_apply(c.mixer->materialize(c.params, c.x.size(1)), c.x), tolerance, what);
  for (const auto& g : gradients(y, torch::ones_like(y), inputs))
    EXPECT_TRUE(torch::isfinite(g).all().item<bool>()) << what;
}

class SubquadraticPositive : public ::testing::TestWithParam<std::string> {};

// 1e-12: products of up to 1501 terms, as in the law at short lengths.
TEST_P(SubquadraticPositive, MixEqualsDenseProductWithGradients) {
  for (const int64_t L : {389, 512, 1501}) {
    auto c = positive_case(GetParam(), rows_of(2, L), torch::kFloat64, 31 + L);
    EXPECT_FALSE(builds_matrix(c)) << L;
    expect_law(c, {}, 1e-12, GetParam() + " at L = " + std::to_string(L));
  }
  auto c = positive_case(GetParam(), rows_of(2, 80), torch::kFloat64, 31);
  EXPECT_TRUE(builds_matrix(c));
}

TEST_P(SubquadraticPositive, HoldsForLayoutsWithinEachSequence) {
  auto c = positive_case(GetParam(), rows_of(1, 1501), torch::kFloat64, 32);
  expect_law(c, Layout::packed(torch::tensor({0, 401, 401, 1001, 1501})), 1e-12, GetParam());
  auto d = positive_case(GetParam(), rows_of(3, 700), torch::kFloat64, 33);
  const auto lengths = torch::tensor({700, 513, 601}).unsqueeze(1);
  const auto mask = torch::arange(700).expand({3, 700}) < lengths;
  expect_law(d, Layout::padded(mask), 1e-12, GetParam() + ", padded");
}

TEST_P(SubquadraticPositive, Float32IsAsGoodAsTheNaiveProduct) {
  const auto exact = positive_case(GetParam(), rows_of(2, 1501), torch::kFloat64, 34);
  const auto single = positive_case(GetParam(), rows_of(2, 1501), torch::kFloat32, 34);
  const auto truth = exact.mixer->mix(exact.x, exact.params);
  const auto M = single.mixer->materialize(single.params, 1501);
  const double naive = test::relative_error(dense_apply(M, single.x), truth);
  EXPECT_LE(test::relative_error(single.mixer->mix(single.x, single.params), truth),
            2 * naive + 1e-6);
}

TEST_P(SubquadraticPositive, BatchRowsDoNotMeet) {
  const auto c = positive_case(GetParam(), rows_of(3, 700), torch::kFloat64, 35);
  auto x = c.x.clone(), params = c.params.clone();
  x[1].fill_(std::nan(""));
  params[1].fill_(std::nan(""));
  const auto y = c.mixer->mix(x, params), clean = c.mixer->mix(c.x, c.params);
  expect_close(y[0], clean[0], 1e-13, GetParam());
  expect_close(y[2], clean[2], 1e-13, GetParam());
}

TEST_P(SubquadraticPositive, ASequenceGivesTheSameAloneAndBesideAWideOne) {
  auto c = positive_case(GetParam(), rows_of(2, 1201), torch::kFloat64, 36);
  c.params[1] *= 6;  // nodes from e^-20 to e^20 lengthen the sum of exponentials for both
  const auto both = c.mixer->mix(c.x, c.params);
  const auto alone = c.mixer->mix(c.x.narrow(0, 0, 1), c.params.narrow(0, 0, 1));
  expect_close(both.narrow(0, 0, 1), alone, 1e-13, GetParam());
}

TEST_P(SubquadraticPositive, ExtremeParametersStayFiniteAndExact) {
  for (const double scale : {0.0, 1e-30, 5.0, 40.0}) {
    auto c = positive_case(GetParam(), rows_of(1, 1300), torch::kFloat64, 37);
    c.params *= scale;
    expect_law(c, {}, 1e-10, GetParam() + " with parameters times " + std::to_string(scale));
  }
  // Beyond this every softmax has only one key, and its gradient is a rounded zero.
  auto c = positive_case(GetParam(), rows_of(1, 1300), torch::kFloat64, 37);
  c.params *= 600;
  expect_finite_and_close(c, 1e-10, GetParam());
}

TEST_P(SubquadraticPositive, TakesCudaTensorsWhereThereIsACudaDevice) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "this machine or this LibTorch has no CUDA";
  auto c = positive_case(GetParam(), rows_of(2, 1501), torch::kFloat64, 40);
  const auto mask = torch::arange(1501).expand({2, 1501}) < torch::tensor({1501, 901}).unsqueeze(1);
  const auto layout = Layout::padded(mask);
  const auto y = c.mixer->mix(c.x, c.params), padded = c.mixer->mix(c.x, c.params, layout);
  c.mixer->to(torch::kCUDA);
  c.x = c.x.to(torch::kCUDA);
  c.params = c.params.to(torch::kCUDA);
  expect_close(c.mixer->mix(c.x, c.params).cpu(), y, 1e-12, GetParam());
  expect_close(c.mixer->mix(c.x, c.params, layout).cpu(), padded, 1e-12, GetParam());
  expect_law(c, {}, 1e-12, GetParam() + " on the GPU");
}

INSTANTIATE_TEST_SUITE_P(All, SubquadraticPositive,
                         ::testing::Values("cauchy_di", "cauchy_dd", "attention_di", "attention_dd",
                                           "attention_causal"),
                         test::parameter_name);

// Nodes from 1e-8 to e^80, the most that float32 can have: a sum of 200 exponentials.
TEST(SubquadraticCauchy, TakesEveryRangeOfFloat32) {
  for (const std::string name : {"cauchy_di", "cauchy_dd"}) {
    auto c = positive_case(name, rows_of(1, 1500), torch::kFloat32, 41);
    {
      torch::NoGradGuard no_grad;
      c.params *= 40;
      for (auto& p : c.mixer->named_parameters())
        if (p.key() != "bias") p.value().mul_(100);
    }
    EXPECT_FALSE(builds_matrix(c)) << name;
    expect_finite_and_close(c, 1e-5, name);
  }
}

// Places of padding have params 0, and so nodes 1 + bias: negative here, while those of the tokens
// are positive.
TEST(SubquadraticCauchy, PaddingMayHaveNegativeNodes) {
  auto c = positive_case("cauchy_dd", rows_of(2, 700), torch::kFloat64, 38);
  {
    torch::NoGradGuard no_grad;
    c.mixer->named_parameters()["bias"].fill_(-1.5);
    c.params.abs_().add_(1);
  }
  const auto mask = torch::arange(700).expand({2, 700}) < torch::tensor({700, 513}).unsqueeze(1);
  EXPECT_FALSE(builds_matrix(c, Layout::padded(mask)));
  expect_law(c, Layout::padded(mask), 1e-12, "bias -1.5");
}

TEST(SubquadraticCauchy, NodesThatAreNotPositiveBuildTheMatrix) {
  auto c = positive_case("cauchy_dd", rows_of(1, 700), torch::kFloat64, 39);
  {
    torch::NoGradGuard no_grad;
    c.mixer->named_parameters()["bias"].fill_(-40);
  }
  EXPECT_TRUE(builds_matrix(c));
  expect_law(c, {}, 1e-12, "bias -40");
}

}  // namespace
}  // namespace hydramix
