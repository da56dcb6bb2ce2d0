// SPDX-License-Identifier: Apache-2.0
// Dropout of attention probabilities: a function of the key, with the matrix as its mean.
#include <cmath>

#include "hydramix/error.h"
#include "ops/dropout.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::random_case;

constexpr double kShare = 0.3;

test::CaseSizes dropping(int64_t B, int64_t L) {
  return {
      .B = B, .L = L, .options = {.qk_dim = 3, .groups = 2, .max_length = 512, .dropout = kShare}};
}

std::vector<std::string> dropping_mixers() {
  std::vector<std::string> names;
  for (const auto& name : mixer_names())
    if (mixer_info(name).dropout) names.push_back(name);
  return names;
}

class AttentionDropout : public ::testing::TestWithParam<std::string> {};

TEST_P(AttentionDropout, ScalesAndDropsTheProbabilities) {
  const DropoutKey key{9, torch::tensor({int64_t{4}, int64_t{1} << 40}), 3};
  for (const int64_t L : {1, 7, 300}) {
    const auto c = random_case(GetParam(), dropping(2, L), torch::kFloat64, 1);
    // The identity of the paper's ablation is a residual, not a probability.
    auto identity = torch::eye(L, torch::kFloat64);
    if (GetParam() == "attention" || GetParam() == "attention_causal") identity.zero_();
    const auto probabilities = c.mixer->materialize(c.params, L) - identity;
    const auto M = probabilities * keep_entries(key, 4, L, kShare) / (1 - kShare) + identity;
    expect_close(c.mixer->mix(c.x, c.params, {}, key), dense_apply(M, c.x), 1e-12,
                 concat("L = ", L));
  }
}

TEST_P(AttentionDropout, ASequenceLosesTheSameEntriesInEveryBatch) {
  // Lengths of several parts, and an empty sequence, which has no number.
  const std::vector<int64_t> offsets = {0, 7, 7, 8, 21, 33};
  const std::vector<int64_t> numbers = {30, 31, 5, 1000};
  const auto c = random_case(GetParam(), dropping(1, 33), torch::kFloat64, 2);
  const auto packed = c.mixer->mix(c.x, c.params, Layout::packed(torch::tensor(offsets)),
                                   {17, torch::tensor(numbers), 1});
  std::size_t s = 0;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const int64_t begin = offsets[i], L = offsets[i + 1] - begin;
    if (L == 0) continue;
    const auto x = c.x.narrow(1, begin, L), params = c.params.narrow(1, begin, L);
    const DropoutKey key{17, torch::tensor({numbers[s++]}), 1};
    const auto alone = c.mixer->mix(x, params, {}, key);
    expect_close(packed.narrow(1, begin, L), alone, 1e-12, concat("packed, sequence ", i));
    const auto padding = [](const torch::Tensor& t) {
      return torch::cat({torch::full_like(t.narrow(1, 0, 1), std::nan("")), t}, 1);
    };
    const auto padded = c.mixer->mix(padding(x), padding(params),
                                     Layout::padded(torch::arange(L + 1).unsqueeze(0) > 0), key);
    expect_close(padded.narrow(1, 1, L), alone, 1e-12, concat("padded, sequence ", i));
  }
}

TEST_P(AttentionDropout, SeedSequenceAndLayerCount) {
  const auto c = random_case(GetParam(), dropping(1, 12), torch::kFloat32, 3);
  const auto mix = [&](int64_t seed, int64_t sequence, int64_t layer) {
    return c.mixer->mix(c.x, c.params, {}, {seed, torch::tensor({sequence}), layer});
  };
  const auto y = mix(1, 2, 3);
  EXPECT_TRUE(torch::equal(mix(1, 2, 3), y));
  for (const auto& other : {mix(2, 2, 3), mix(1, 3, 3), mix(1, 2, 4)})
    EXPECT_GT(test::relative_error(other, y), 1e-2);
}

TEST_P(AttentionDropout, TheMeanIsTheProductWithoutDropout) {
  const int64_t B = 4000;
  auto c = random_case(GetParam(), dropping(1, 7), torch::kFloat64, 4);
  const auto all = c.mixer->mix(c.x.expand({B, -1, -1, -1}), c.params.expand({B, -1, -1}), {},
                                {5, torch::arange(B)});
  c.mixer->eval();
  const auto whole = c.mixer->mix(c.x, c.params)[0];
  // Six standard deviations of the mean.
  const auto bound = 6 * all.std(0) / std::sqrt(static_cast<double>(B));
  EXPECT_TRUE(((all.mean(0) - whole).abs() <= bound).all().item<bool>());
  EXPECT_GT(bound.min().item<double>(), 0);
}

TEST_P(AttentionDropout, GradientsAreThoseOfFiniteDifferences) {
  auto c = random_case(GetParam(), dropping(1, 19), torch::kFloat64, 5);
  c.x.requires_grad_();
  c.params.requires_grad_();
  const auto layout = Layout::packed(torch::tensor({0, 11, 19}));
  const DropoutKey key{6, torch::tensor({7, 8})};
  const auto dy = torch::randn_like(c.x);
  std::vector<std::pair<std::string, torch::Tensor>> inputs{{"x", c.x}, {"params", c.params}};
  for (const auto& p : c.mixer->named_parameters()) inputs.emplace_back(p.key(), p.value());
  test::expect_gradients(
      [&] { return (c.mixer->mix(c.x, c.params, layout, key) * dy).sum() + (c.params * 0).sum(); },
      inputs, GetParam());
}

TEST_P(AttentionDropout, EvaluationDropsNothing) {
  for (const int64_t L : {12, 300}) {
    auto sizes = dropping(2, L);
    const auto c = random_case(GetParam(), sizes, torch::kFloat32, 6);
    sizes.options.dropout = 0;
    const auto plain = random_case(GetParam(), sizes, torch::kFloat32, 6);
    const DropoutKey key{1, torch::tensor({2, 3})};
    const auto expected = plain.mixer->mix(c.x, c.params);
    EXPECT_TRUE(torch::equal(plain.mixer->mix(c.x, c.params, {}, key), expected));
    EXPECT_TRUE(
        torch::equal(c.mixer->materialize(c.params, L), plain.mixer->materialize(c.params, L)));
    c.mixer->eval();
    EXPECT_TRUE(torch::equal(c.mixer->mix(c.x, c.params), expected));
    EXPECT_TRUE(torch::equal(c.mixer->mix(c.x, c.params, {}, key), expected));
  }
}

TEST_P(AttentionDropout, NeedsANumberForEverySequence) {
  const auto c = random_case(GetParam(), dropping(2, 5), torch::kFloat32, 7);
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params), Error,
                    GetParam() +
                        ": dropout = 0.3 in training needs a number for each of the 2 "
                        "sequences, (S) int64; got an undefined tensor. Give a "
                        "DropoutKey, or call eval().");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params, {}, {1, torch::arange(3)}), Error,
                    "got shape [3] of long");
  const auto none = c.mixer->mix(c.x.narrow(0, 0, 0), c.params.narrow(0, 0, 0), {},
                                 {1, torch::empty({0}, torch::kInt64)});
  EXPECT_EQ(none.sizes(), c.x.narrow(0, 0, 0).sizes());
}

INSTANTIATE_TEST_SUITE_P(All, AttentionDropout, ::testing::ValuesIn(dropping_mixers()),
                         test::parameter_name);

TEST(MixerDropout, SoftmaxAttentionAloneReadsIt) {
  EXPECT_EQ(dropping_mixers(), (std::vector<std::string>{"attention", "attention_causal",
                                                         "attention_dd", "attention_di"}));
  for (const auto& name : mixer_names()) {
    if (mixer_info(name).dropout) continue;
    auto sizes = dropping(2, 9);
    const auto c = random_case(name, sizes, torch::kFloat32, 8);
    sizes.options.dropout = 0;
    const auto plain = random_case(name, sizes, torch::kFloat32, 8);
    EXPECT_TRUE(torch::equal(c.mixer->mix(c.x, c.params), plain.mixer->mix(c.x, c.params))) << name;
  }
}

}  // namespace
}  // namespace hydramix
