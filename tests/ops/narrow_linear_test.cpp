// SPDX-License-Identifier: Apache-2.0
#include "ops/narrow_linear.h"

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;
using torch::Tensor;

class Narrow : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(Narrow, EqualsTheProductAtAwkwardSizes) {
  for (const int64_t n : {0, 1, 47, 48, 49, 101})
    for (const int64_t C : {1, 17, 255, 256, 257, 600})
      for (const int64_t H : {1, 15, 16, 24, 33, 70}) {
        torch::manual_seed(n * C + H);
        auto x = torch::randn({n, C + 3}, torch::kFloat64).narrow(1, 1, C).requires_grad_();
        auto weight = torch::randn({H, C}, torch::kFloat64).requires_grad_();
        auto bias = torch::randn({H}, torch::kFloat64).requires_grad_();
        const auto fast = narrow_linear(x, weight, bias);
        const auto plain = torch::addmm(bias, x, weight.t());
        const auto what = std::to_string(n) + ", " + std::to_string(C) + ", " + std::to_string(H);
        expect_close(fast, plain, 1e-13, what);
        if (n == 0) continue;
        const auto dy = torch::randn_like(plain);
        const auto a = torch::autograd::grad({fast}, {x, weight, bias}, {dy});
        const auto b = torch::autograd::grad({plain}, {x, weight, bias}, {dy});
        for (std::size_t i = 0; i < a.size(); ++i) expect_close(a[i], b[i], 1e-13, what);
        torch::NoGradGuard no_grad;
        const auto single = narrow_linear(x.to(torch::kFloat32), weight.to(torch::kFloat32),
                                          bias.to(torch::kFloat32));
        expect_close(single, plain, 1e-4, "float32, " + what);  // a single output may cancel
      }
}

TEST_P(Narrow, Bfloat16IsStorageOnlyAndThreadsDoNotMatter) {
  torch::manual_seed(1);
  const auto x = torch::randn({200, 300}).to(torch::kBFloat16);
  const auto weight = torch::randn({24, 300}), bias = torch::randn({24});
  const auto y = narrow_linear(x, weight, bias);
  ASSERT_EQ(y.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(y, narrow_linear(x.to(torch::kFloat32), weight, bias)));
  test::same_for_any_threads([&] { return std::vector<Tensor>{narrow_linear(x, weight, bias)}; });
  EXPECT_TRUE(torch::equal(y[130], narrow_linear(x.narrow(0, 130, 1), weight, bias)[0]));
}

INSTANTIATE_TEST_SUITE_P(All, Narrow, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(NarrowErrors, BadShapesAreNamed) {
  const auto x = torch::zeros({4, 3}), weight = torch::zeros({2, 3}), bias = torch::zeros({2});
  EXPECT_THROW_WITH(narrow_linear(x, weight.t(), bias), Error, "weight (H, C)");
  EXPECT_THROW_WITH(narrow_linear(x, weight, torch::zeros({3})), Error, "bias (H)");
  EXPECT_THROW_WITH(narrow_linear(x, weight.to(torch::kFloat64), bias), Error, "must be");
}

}  // namespace
}  // namespace hydramix
