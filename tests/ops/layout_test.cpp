// SPDX-License-Identifier: Apache-2.0
#include "hydramix/layout.h"

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

torch::Tensor mask_of(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<torch::Tensor> each;
  for (const auto& row : rows) each.push_back(torch::tensor(row));
  return torch::stack(each);
}

TEST(Layout, RowsStartAtTheFirstTokenAndEndInZeros) {
  const auto layout =
      Layout::padded(mask_of({{0, 1, 1, 0}, {1, 1, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 1}}));
  const auto t = torch::arange(16, torch::kFloat64).view({4, 4}) + 1;
  EXPECT_TRUE(
      torch::equal(layout.to_rows(t),
                   torch::tensor({{2., 3., 0.}, {5., 6., 7.}, {16., 0., 0.}}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(
      layout.from_rows(layout.to_rows(t)),
      torch::tensor({{0., 2., 3., 0.}, {5., 6., 7., 0.}, {0., 0., 0., 0.}, {0., 0., 0., 16.}},
                    torch::kFloat64)));
}

TEST(Layout, PackedSequencesBecomeRows) {
  const auto layout = Layout::packed(torch::tensor({0, 2, 2, 5}, torch::kInt32));
  const auto t = torch::arange(5, torch::kFloat64).unsqueeze(0) + 1;
  EXPECT_TRUE(torch::equal(layout.to_rows(t),
                           torch::tensor({{1., 2., 0.}, {3., 4., 5.}}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(layout.from_rows(layout.to_rows(t)), t));
}

TEST(Layout, AMaskWithoutPaddingIsFull) {
  EXPECT_TRUE(Layout::padded(torch::ones({2, 3}, torch::kBool)).is_full());
  EXPECT_TRUE(Layout().is_full());
  EXPECT_FALSE(Layout::packed(torch::tensor({0, 3})).is_full());
}

TEST(Layout, WhatStandsInPaddingIsNeverRead) {
  const auto layout = Layout::padded(mask_of({{0, 1}, {1, 1}}));
  auto t = torch::tensor({{std::nan(""), 1.}, {2., 3.}}, torch::kFloat64).requires_grad_();
  const auto rows = layout.to_rows(t);
  EXPECT_TRUE(torch::isfinite(rows).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(layout.of_rows().to_rows(rows)).all().item<bool>());
  const auto g = torch::autograd::grad({rows.sum()}, {t})[0];
  EXPECT_TRUE(torch::equal(g, torch::tensor({{0., 1.}, {1., 1.}}, torch::kFloat64)));
}

TEST(Layout, BadMasksAreRefused) {
  EXPECT_THROW_WITH(Layout::padded(torch::ones({3}, torch::kBool)), Error,
                    "expected shape (B, L); got [3]");
  EXPECT_THROW_WITH(Layout::padded({}), Error, "undefined");
  EXPECT_THROW_WITH(Layout::padded(torch::ones({2, 3})), Error,
                    "expected bool, or integers 0 and 1; got dtype float");
  EXPECT_THROW_WITH(Layout::padded(mask_of({{0, 2}})), Error, "0 and 1 only");
  EXPECT_THROW_WITH(Layout::padded(mask_of({{1, 1, 1}, {1, 0, 1}})), Error,
                    "row 1 has padding between its tokens");
}

TEST(Layout, BadOffsetsAreRefused) {
  EXPECT_THROW_WITH(Layout::packed(torch::tensor({1, 4})), Error, "must start at 0; got 1 first");
  EXPECT_THROW_WITH(Layout::packed(torch::tensor({0, 4, 3, 9})), Error,
                    "must not decrease; got 4 then 3 at index 2");
  EXPECT_THROW_WITH(Layout::packed(torch::tensor({0., 4.})), Error,
                    "expected int32 or int64 offsets");
  EXPECT_THROW_WITH(Layout::packed(torch::zeros({2, 2}, torch::kInt64)), Error, "got shape [2, 2]");
  EXPECT_THROW_WITH(Layout::packed(torch::zeros({0}, torch::kInt64)), Error, "a vector of offsets");
  EXPECT_THROW_WITH(Layout::packed({}), Error, "undefined");
}

TEST(Layout, OnlyFitsTensorsOfItsShape) {
  const auto layout = Layout::packed(torch::tensor({0, 2, 5}));
  EXPECT_NO_THROW(layout.check("here", 1, 5));
  EXPECT_THROW_WITH(layout.check("here", 1, 6), Error,
                    "here: the layout describes (B, L) = (1, 5)");
  EXPECT_NO_THROW(Layout().check("here", 7, 9));
}

TEST(Layout, PartsCostLessThanTwoPlacesAToken) {
  // One long sequence among two thousand of one token: as one rectangle, 2001 x 4000.
  std::vector<int64_t> offsets{0, 4000};
  for (int64_t s = 0; s < 2000; ++s) offsets.push_back(offsets.back() + 1 + s % 3);
  const auto layout = Layout::packed(torch::tensor(offsets));
  int64_t places = 0;
  auto sum = torch::zeros({1, offsets.back()}, torch::kFloat64);
  const auto t = torch::randn({1, offsets.back()}, torch::kFloat64);
  for (const auto& part : layout.parts()) {
    const auto rows = part.to_rows(t);
    places += rows.numel();
    sum += part.from_rows(rows);
  }
  EXPECT_LT(places, 2 * offsets.back());
  EXPECT_TRUE(torch::equal(sum, t)) << "every token belongs to one part";
}

TEST(Layout, TensorsOfAnotherShapeAreRefused) {
  const auto layout = Layout::packed(torch::tensor({0, 3, 7}));
  EXPECT_THROW_WITH(layout.to_rows(torch::zeros({1, 9, 2})), Error,
                    "(B, L) = (1, 7) but the input has (1, 9)");
  EXPECT_THROW_WITH(layout.from_rows(torch::zeros({5, 4, 2})), Error,
                    "the rows of this layout are [2, 4]");
  EXPECT_THROW_WITH(layout.to_rows({}), Error, "undefined");
  EXPECT_THROW_WITH(Layout::packed(torch::tensor({int64_t{0}, int64_t{1} << 45})), Error,
                    "at most 8589934592 tokens");
  EXPECT_THROW_WITH(Layout::padded(torch::zeros({0, 0}, torch::kBool)).check("here", 2, 3), Error,
                    "(0, 0)");
  EXPECT_EQ(Layout::padded(torch::ones({2, 5}, torch::kBool)).longest(5), 5);
}

}  // namespace
}  // namespace hydramix
