// SPDX-License-Identifier: Apache-2.0
// Reversal and shift within sequences, against a loop over the sequences.
#include "ops/reversal.h"

#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_gradients;

const std::vector<int64_t> kOffsets{0, 5, 6, 13, 15};

template <class Function>
torch::Tensor per_sequence(const torch::Tensor& t, Function f) {
  std::vector<torch::Tensor> parts;
  for (std::size_t s = 0; s + 1 < kOffsets.size(); ++s)
    parts.push_back(f(t.narrow(0, kOffsets[s], kOffsets[s + 1] - kOffsets[s])));
  return torch::cat(parts);
}

torch::Tensor one_later(const torch::Tensor& t) {
  return torch::cat({torch::zeros_like(t.narrow(0, 0, 1)), t.narrow(0, 0, t.size(0) - 1)});
}

TEST(Reversal, OfTokensStaysWithinTheSequence) {
  torch::manual_seed(1);
  const auto t = torch::randn({15, 2, 3}, torch::kFloat64);
  EXPECT_TRUE(torch::equal(flip_tokens(t, kOffsets),
                           per_sequence(t, [](const auto& s) { return s.flip({0}); })));
  EXPECT_TRUE(torch::equal(shift_tokens(t, kOffsets), per_sequence(t, one_later)));
}

TEST(Reversal, OfSequencesOfOneLengthIsTheSame) {
  torch::manual_seed(2);
  const auto t = torch::randn({12, 3}, torch::kFloat64);
  const auto uniform = Sequences::uniform(3, 4);
  EXPECT_TRUE(torch::equal(flip_tokens(t, uniform), flip_tokens(t, uniform.offsets())));
  EXPECT_TRUE(torch::equal(shift_tokens(t, uniform), shift_tokens(t, uniform.offsets())));
}

TEST(Reversal, DoesNotCarryNanIntoAnotherSequence) {
  auto t = torch::ones({15, 2}, torch::kFloat64);
  t.narrow(0, 5, 1).fill_(std::nan(""));
  for (const auto& moved : {flip_tokens(t, kOffsets), shift_tokens(t, kOffsets)}) {
    EXPECT_TRUE(torch::isfinite(moved.narrow(0, 0, 5)).all().item<bool>());
    EXPECT_TRUE(torch::isfinite(moved.narrow(0, 6, 9)).all().item<bool>());
  }
}

TEST(Reversal, OfRowsLeavesPaddingWhereItIs) {
  const auto t = torch::arange(12, torch::kFloat64).view({2, 6});
  const auto valid = torch::arange(6).expand({2, 6}) < torch::tensor({6, 4}).unsqueeze(1);
  EXPECT_TRUE(torch::equal(
      flip_rows(t, valid),
      torch::tensor({{5., 4., 3., 2., 1., 0.}, {9., 8., 7., 6., 10., 11.}}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(flip_rows(t, {}), t.flip({1})));
}

TEST(Reversal, HasGradients) {
  torch::manual_seed(3);
  auto t = torch::randn({15, 3}, torch::kFloat64).requires_grad_();
  const auto valid = torch::arange(5).expand({3, 5}) < torch::tensor({5, 1, 3}).unsqueeze(1);
  const auto weight = torch::randn({15, 3}, torch::kFloat64);
  const auto in_rows = [](const torch::Tensor& x) { return x.view({3, 5, 3}); };
  expect_gradients(
      [&] {
        return (flip_tokens(t, kOffsets) * weight).sum() +
               (shift_tokens(t, kOffsets).pow(2) * weight).sum() +
               (flip_rows(in_rows(t), valid) * in_rows(weight)).pow(2).sum();
      },
      {{"t", t}}, "reversal");
}

TEST(Reversal, OfNothingIsNothing) {
  const auto none = torch::zeros({0, 3});
  EXPECT_EQ(flip_tokens(none, std::vector<int64_t>{0}).sizes(), none.sizes());
  EXPECT_EQ(shift_tokens(none, std::vector<int64_t>{0}).sizes(), none.sizes());
}

}  // namespace
}  // namespace hydramix
