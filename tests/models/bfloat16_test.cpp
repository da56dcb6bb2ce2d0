// SPDX-License-Identifier: Apache-2.0
// bfloat16 on the CPU. LibTorch computes bfloat16 products with oneDNN, and Debian 12's version
// crashes with SIGILL on CPUs with AMX, so our code must not use them. CTest runs this file with
// DNNL_VERBOSE=1 and fails if oneDNN reports a computation in bfloat16. So the test also works on
// CPUs with AVX-512 but without AMX.
#include "hydramix/bert.h"
#include "hydramix/block.h"
#include "hydramix/error.h"
#include "ops/product.h"
#include "support/expect.h"
#include "support/models.h"

namespace hydramix {
namespace {

class Bfloat16 : public ::testing::TestWithParam<std::string> {};

TEST_P(Bfloat16, BlocksForwardBackwardAndTheirMatrices) {
  torch::manual_seed(1);
  for (const bool converted : {false, true}) {  // weights in float32, or in bfloat16 as well
    auto options = test::tiny_bert(GetParam()).block;
    // A network of fast sines amplifies the rounding of its weights.
    options.mixer_options.filter_frequency = 1;
    Block block(options);
    const auto u = torch::randn({2, 16, 16});
    const auto exact = block->forward(u).detach();
    if (converted) block->to(torch::kBFloat16);
    const auto narrow = u.to(torch::kBFloat16).requires_grad_();
    const auto y = block->forward(narrow);
    ASSERT_EQ(y.scalar_type(), torch::kBFloat16);
    // Eight bits per value, through two projections and a mixer.
    const double error = (y.detach().to(torch::kFloat32) - exact).norm().item<double>() /
                         exact.norm().item<double>();
    EXPECT_LT(error, 0.1) << (converted ? "weights in bfloat16" : "weights in float32");
    y.to(torch::kFloat32).sum().backward();
    EXPECT_TRUE(torch::isfinite(narrow.grad()).all().item<bool>());
    if (!mixer_info(GetParam()).linear) continue;
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(torch::isfinite(block->materialize(narrow)).all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bfloat16, ::testing::ValuesIn(mixer_names()), test::parameter_name);

TEST(Bfloat16Model, WeightsInBfloat16AreAnErrorThatSaysSo) {
  BertForMaskedLM model(test::tiny_bert("hydra"));
  model->to(torch::kBFloat16);
  EXPECT_THROW_WITH(model->encode(torch::ones({1, 4}, torch::kInt64), {}), Error,
                    "weights of BFloat16");
}

TEST(Bfloat16Product, TakesAnyLayout) {
  const auto a = torch::randn({64, 64}).to(torch::kBFloat16);
  EXPECT_TRUE(torch::isfinite(matrix_product(a.t(), a)).all().item<bool>());
}

}  // namespace
}  // namespace hydramix
