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

TEST(Layout, RowsOfPackedSequencesOfOneLengthAreAView) {
  const auto layout = Layout::packed(torch::tensor({0, 3, 6}));
  const auto t = torch::arange(12, torch::kFloat64).view({1, 6, 2});
  const auto rows = layout.to_rows(t);
  EXPECT_EQ(rows.sizes(), (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(rows.data_ptr(), t.data_ptr());
  EXPECT_FALSE(layout.valid().defined());
  EXPECT_TRUE(layout.row_layout().is_full());
  EXPECT_EQ(layout.parts().size(), 1u);
  // Also of rows in another order in memory, as products return them.
  const auto transposed = rows.transpose(1, 2).contiguous().transpose(1, 2);
  EXPECT_TRUE(torch::equal(layout.from_rows(transposed), t));
  EXPECT_THROW_WITH(layout.from_rows(rows.narrow(1, 0, 2)), Error, "the rows of this layout");
}

TEST(Layout, AMaskWithoutPaddingIsFull) {
  EXPECT_TRUE(Layout::padded(torch::ones({2, 3}, torch::kBool)).is_full());
  EXPECT_TRUE(Layout().is_full());
  EXPECT_FALSE(Layout::packed(torch::tensor({0, 3})).is_full());
}

TEST(Layout, PaddingIsNeverRead) {
  const auto layout = Layout::padded(mask_of({{0, 1}, {1, 1}}));
  auto t = torch::tensor({{std::nan(""), 1.}, {2., 3.}}, torch::kFloat64).requires_grad_();
  const auto rows = layout.to_rows(t);
  EXPECT_TRUE(torch::isfinite(rows).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(layout.row_layout().to_rows(rows)).all().item<bool>());
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

// (B, L, 2) with different nonzero entries.
torch::Tensor numbered(int64_t B, int64_t L) {
  return (torch::arange(B * L * 2, torch::kFloat64) + 1).view({B, L, 2});
}

struct TokenCase {
  const char* name;
  Layout layout;
  int64_t B, L;
  std::vector<int64_t> places;   // of the tokens, among B * L
  std::vector<int64_t> offsets;  // of the sequences among the tokens
};

std::vector<TokenCase> token_cases() {
  const auto left = mask_of({{0, 0, 1}, {0, 1, 1}}), right = mask_of({{1, 1, 0}, {1, 0, 0}});
  const auto both = mask_of({{0, 1, 1, 0}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 1}});
  const auto packed = Layout::packed(torch::tensor({0, 0, 2, 2, 5, 5}));
  const auto rows = Layout::padded(both).row_layout();  // (3, 4), lengths 2, 4, 1
  const std::vector<int64_t> five{0, 1, 2, 3, 4}, six{0, 1, 2, 3, 4, 5};
  return {
      {"full", Layout(), 2, 3, six, {0, 3, 6}},
      {"full by a mask", Layout::padded(mask_of({{1, 1, 1}, {1, 1, 1}})), 2, 3, six, {0, 3, 6}},
      {"padded left", Layout::padded(left), 2, 3, {2, 4, 5}, {0, 1, 3}},
      {"padded right", Layout::padded(right), 2, 3, {0, 1, 3}, {0, 2, 3}},
      {"padded on both sides", Layout::padded(both), 4, 4, {1, 2, 4, 5, 6, 7, 15}, {0, 2, 6, 7}},
      {"packed", packed, 1, 5, five, {0, 2, 5}},
      {"rows", rows, 3, 4, {0, 1, 4, 5, 6, 7, 8}, {0, 2, 6, 7}},
      {"rows without padding",
       Layout::packed(torch::tensor({0, 3, 6})).row_layout(),
       2,
       3,
       six,
       {0, 3, 6}},
      {"all padding", Layout::padded(torch::zeros({2, 3}, torch::kBool)), 2, 3, {}, {0}},
      {"all sequences empty", Layout::packed(torch::tensor({0, 0, 0})), 1, 0, {}, {0}},
      {"no sequences", Layout::packed(torch::tensor({0})), 1, 0, {}, {0}},
      {"full without places", Layout(), 3, 0, {}, {0}},
      {"full without rows", Layout(), 0, 3, {}, {0}},
  };
}

TEST(LayoutTokens, AreThePlacesOfTheSequencesEndToEnd) {
  for (const auto& c : token_cases()) {
    const auto t = numbered(c.B, c.L), tokens = c.layout.to_tokens(t);
    EXPECT_TRUE(torch::equal(tokens.flatten(0, 1), t.flatten(0, 1).index_select(
                                                       0, torch::tensor(c.places, torch::kInt64))))
        << c.name;
    EXPECT_EQ(c.layout.sequences(c.B, c.L).offsets(), c.offsets) << c.name;
    const bool dense = static_cast<int64_t>(c.places.size()) == c.B * c.L;
    EXPECT_EQ(tokens.size(0), dense ? c.B : 1) << c.name;
    if (dense) {
      EXPECT_TRUE(tokens.is_same(t)) << c.name << ": nothing moves";
    }
  }
}

TEST(LayoutTokens, GoBackToTheirPlacesWithZerosBetween) {
  for (const auto& c : token_cases()) {
    const auto t = numbered(c.B, c.L);
    auto expected = torch::zeros({c.B * c.L, 2}, torch::kFloat64);
    for (const int64_t place : c.places) expected[place] = t.flatten(0, 1)[place];
    EXPECT_TRUE(
        torch::equal(c.layout.from_tokens(c.layout.to_tokens(t)), expected.view({c.B, c.L, 2})))
        << c.name;
  }
}

TEST(LayoutTokens, HaveALayoutOfTheSameSequences) {
  for (const auto& c : token_cases()) {
    const auto t = numbered(c.B, c.L), tokens = c.layout.to_tokens(t);
    const auto inner = c.layout.token_layout();
    EXPECT_NO_THROW(inner.check(c.name, tokens.size(0), tokens.size(1)));
    EXPECT_EQ(inner.sequences(tokens.size(0), tokens.size(1)).offsets(), c.offsets) << c.name;
    EXPECT_TRUE(inner.to_tokens(tokens).is_same(tokens)) << c.name << ": no padding is left";
    if (!c.places.empty()) {
      EXPECT_TRUE(torch::equal(inner.to_rows(tokens), c.layout.to_rows(t))) << c.name;
      EXPECT_EQ(inner.longest(tokens.size(1)), c.layout.longest(c.L)) << c.name;
    }
  }
}

TEST(LayoutTokens, PaddingGetsNoGradient) {
  for (const auto& c : token_cases()) {
    auto t = numbered(c.B, c.L).requires_grad_();
    c.layout.from_tokens(c.layout.to_tokens(t)).sum().backward();
    auto expected = torch::zeros({c.B * c.L, 2}, torch::kFloat64);
    for (const int64_t place : c.places) expected[place].fill_(1);
    EXPECT_TRUE(torch::equal(t.grad(), expected.view({c.B, c.L, 2}))) << c.name;
  }
}

TEST(LayoutTokens, OfAnotherShapeAreRefused) {
  const auto padded = Layout::padded(mask_of({{0, 1, 1}, {1, 0, 0}}));
  EXPECT_THROW_WITH(padded.to_tokens(torch::zeros({2, 4})), Error,
                    "(2, 3) but the input has (2, 4)");
  EXPECT_THROW_WITH(padded.to_tokens({}), Error, "undefined");
  EXPECT_THROW_WITH(padded.from_tokens(torch::zeros({1, 4, 2})), Error,
                    "this layout has 3 tokens; got a tensor of shape [1, 4, 2]");
  EXPECT_THROW_WITH(padded.from_tokens(torch::zeros({3, 1, 2})), Error,
                    "Give what to_tokens() made");
  const auto packed = Layout::packed(torch::tensor({0, 2, 5}));
  EXPECT_THROW_WITH(packed.from_tokens(torch::zeros({1, 4})), Error, "(1, 5)");
}

}  // namespace
}  // namespace hydramix
