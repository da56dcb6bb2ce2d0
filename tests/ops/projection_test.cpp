// SPDX-License-Identifier: Apache-2.0
#include "ops/projection.h"

#include "hydramix/block.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

TEST(Projection, BlocksAreTheDiagonalOfAMatrix) {
  const auto x = torch::randn({2, 5, 6}, torch::kFloat64);
  const auto weight = torch::randn({3, 4, 2}, torch::kFloat64);
  const auto bias = torch::randn({12}, torch::kFloat64);
  const auto whole = torch::block_diag({weight[0], weight[1], weight[2]});
  test::expect_close(project_blocks(x, weight, bias), project(x, whole, bias), 1e-14, "blocks");
  test::expect_close(project_blocks(x, weight, {}), project(x, whole, {}), 1e-14, "no bias");
}

TEST(Precision, IsThatOfTheProducts) {
  const auto x = torch::randn({3, 4});
  EXPECT_EQ(product_type(x, torch::kFloat32), torch::kFloat32);
  EXPECT_THROW_WITH(product_type(x, torch::kBFloat16), Error,
                    "bfloat16 products were asked for, but the tensors are on the CPU");
  EXPECT_THROW_WITH(product_type(x, torch::kFloat16), UsageError, "float32 or bfloat16; got Half");
  const auto wide = x.to(torch::kFloat64);
  EXPECT_EQ(product_type(wide, torch::kBFloat16), torch::kFloat64) << "float64 is never rounded";
}

TEST(Precision, ReachesTheProductsOfTheModel) {
  BertForMaskedLM model(test::tiny_bert("hydra"));
  const auto ids = torch::randint(30, {1, 6}, torch::kInt64), places = torch::tensor({1, 2});
  const auto hidden = model->encode(ids, {});
  model->set_precision(torch::kBFloat16);
  // On the CPU the error shows that the precision reached the product.
  EXPECT_THROW_WITH(model->encode(ids, {}), Error, "on the CPU");
  EXPECT_THROW_WITH(model->predict(hidden), Error, "on the CPU");
  EXPECT_THROW_WITH(model->masked_loss(hidden, places, places), Error, "on the CPU");
  EXPECT_THROW_WITH(model->set_precision(torch::kFloat16), UsageError, "got Half");
  model->set_precision(torch::kFloat32);
  EXPECT_TRUE(torch::equal(model->encode(ids, {}), hidden));
}

// Runs on a GPU only.
TEST(Precision, IsBfloat16OnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const auto x = torch::randn({64, 96}).cuda(), weight = torch::randn({32, 96}).cuda();
  const auto exact = project(x, weight, {});
  const auto rounded = project(x, weight, {}, RoundedCopy(), torch::kBFloat16);
  EXPECT_EQ(rounded.scalar_type(), torch::kFloat32);
  EXPECT_FALSE(torch::equal(rounded, exact));
  // Two roundings to 8 bits of the factors and one of the result.
  test::expect_close(rounded, exact, 3 / 256.0, "bfloat16");
}

}  // namespace
}  // namespace hydramix
