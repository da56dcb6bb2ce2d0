// SPDX-License-Identifier: Apache-2.0
#include "ops/dropout.h"

#include <cmath>

#include "support/expect.h"

namespace hydramix {
namespace {

TokenNumbers some_tokens(int64_t seed, int64_t n) {
  return {seed, torch::arange(n).div(16, "floor") * 1000003, torch::arange(n).remainder(16)};
}

TEST(Dropout, KeepsTheRequestedShare) {
  for (const double share : {0.0, 0.1, 0.5, 0.9}) {
    const int64_t n = 4096, channels = 64;
    const auto mask = keep_mask(some_tokens(3, n), channels, share).to(torch::kFloat64);
    // Six standard deviations of a mean of independent bits, over all, a channel and a token.
    const auto bound = [&](int64_t bits) {
      return 6 * std::sqrt(share * (1 - share) / static_cast<double>(bits)) + 1e-12;
    };
    EXPECT_NEAR(mask.mean().item<double>(), 1 - share, bound(n * channels));
    EXPECT_LE((mask.mean(0) - (1 - share)).abs().max().item<double>(), bound(n));
    EXPECT_LE((mask.mean(1) - (1 - share)).abs().max().item<double>(), bound(channels));
  }
}

TEST(Dropout, NeighboursAreIndependent) {
  // Correlations of masks one token, one sequence, one seed and one channel apart.
  const int64_t n = 4096;
  const auto mask = [&](int64_t seed) {
    return keep_mask(some_tokens(seed, n), 64, 0.5).to(torch::kFloat64) * 2 - 1;
  };
  const auto a = mask(7), b = mask(8);
  const double bound = 6 / std::sqrt(static_cast<double>((n - 16) * 63));
  for (const int64_t apart : {1, 16})
    EXPECT_LT(
        std::abs((a.narrow(0, 0, n - apart) * a.narrow(0, apart, n - apart)).mean().item<double>()),
        bound);
  EXPECT_LT(std::abs((a * b).mean().item<double>()), bound);
  EXPECT_LT(std::abs((a.narrow(1, 0, 63) * a.narrow(1, 1, 63)).mean().item<double>()), bound);
}

TEST(Dropout, OutputsAndTheEmbeddingAreIndependent) {
  const int64_t n = 4096;
  const auto tokens = some_tokens(7, n);
  const auto signs = [](const torch::Tensor& mask) { return mask.to(torch::kFloat64) * 2 - 1; };
  const auto embedding = signs(keep_mask(tokens, 64, 0.5));
  const auto first = signs(keep_output(tokens, 0, 64, 0.5));
  const auto second = signs(keep_output(tokens, 1, 64, 0.5));
  const auto inner = signs(keep_inner(tokens, 0, 64, 0.5));
  const auto next = signs(keep_inner(tokens, 1, 64, 0.5));
  const double bound = 6 / std::sqrt(static_cast<double>(n * 64));
  EXPECT_LT(std::abs(first.mean().item<double>()), bound);
  EXPECT_LT(std::abs((first * second).mean().item<double>()), bound);
  EXPECT_LT(std::abs((first * embedding).mean().item<double>()), bound);
  EXPECT_LT(std::abs((second * embedding).mean().item<double>()), bound);
  EXPECT_LT(std::abs(inner.mean().item<double>()), bound);
  EXPECT_LT(std::abs((inner * first).mean().item<double>()), bound);
  EXPECT_LT(std::abs((inner * next).mean().item<double>()), bound);
  EXPECT_LT(std::abs((inner * embedding).mean().item<double>()), bound);
}

TEST(Dropout, IsAPureFunctionOfTheTokensNumbers) {
  // More tokens than one chunk of hashes; also in another order, and alone.
  const auto tokens = some_tokens(-5, 20000);
  const auto all = keep_mask(tokens, 8, 0.3);
  const auto order = torch::randperm(20000);
  const auto shuffled = keep_mask(
      {tokens.seed, tokens.sequence.index_select(0, order), tokens.place.index_select(0, order)}, 8,
      0.3);
  EXPECT_TRUE(torch::equal(shuffled, all.index_select(0, order)));
  // All 64 bits of seeds and sequence numbers count.
  const int64_t high = int64_t{1} << 40;
  EXPECT_FALSE(torch::equal(all, keep_mask({-5 + high, tokens.sequence, tokens.place}, 8, 0.3)));
  EXPECT_FALSE(torch::equal(all, keep_mask({-5, tokens.sequence + high, tokens.place}, 8, 0.3)));
  EXPECT_EQ(keep_mask(some_tokens(1, 0), 8, 0.3).sizes(), (std::vector<int64_t>{0, 8}));
}

TEST(Dropout, TheMaskNeverChanges) {
  // The expected bits were computed separately in integers: other machines and later versions must
  // drop the same channels.
  const auto mask = keep_mask({42, torch::tensor({0, 5}), torch::tensor({0, 3})}, 16, 0.5);
  int64_t bits = 0;
  for (int64_t i = 0; i < 32; ++i) bits = 2 * bits + mask.flatten()[i].item<bool>();
  EXPECT_EQ(bits, 0x6529ce75);
  const auto output = keep_output({42, torch::tensor({0, 5}), torch::tensor({0, 3})}, 7, 16, 0.5);
  bits = 0;
  for (int64_t i = 0; i < 32; ++i) bits = 2 * bits + output.flatten()[i].item<bool>();
  EXPECT_EQ(bits, 0x93ccb88b);
  const auto inner = keep_inner({42, torch::tensor({0, 5}), torch::tensor({0, 3})}, 7, 16, 0.5);
  bits = 0;
  for (int64_t i = 0; i < 32; ++i) bits = 2 * bits + inner.flatten()[i].item<bool>();
  EXPECT_EQ(bits, 0xc812c040);
  const auto entries = keep_entries({42, torch::tensor({5}), 3}, 2, 4, 0.5);
  bits = 0;
  for (int64_t i = 0; i < 32; ++i) bits = 2 * bits + entries.flatten()[i].item<bool>();
  EXPECT_EQ(bits, 0x9f971a8b);
}

TEST(Dropout, KeepsTheRequestedShareOfEntries) {
  const int64_t S = 40, heads = 6, L = 50;
  const DropoutKey key{3, torch::arange(S) * 1000003};
  for (const double share : {0.0, 0.1, 0.9}) {
    const auto mask = keep_entries(key, heads, L, share).to(torch::kFloat64);
    // Means over all dimensions but one, each within six standard deviations.
    for (int64_t d = 0; d < 4; ++d) {
      const auto means = mask.transpose(0, d).flatten(1).mean(1);
      const auto bits = static_cast<double>(mask.numel() / means.numel());
      EXPECT_LE((means - (1 - share)).abs().max().item<double>(),
                6 * std::sqrt(share * (1 - share) / bits) + 1e-12);
    }
  }
}

TEST(Dropout, NeighbouringEntriesAreIndependent) {
  // Correlations of masks one sequence, head, row, column, layer and seed apart.
  const int64_t S = 16, heads = 8, L = 48;
  const auto mask = [&](int64_t seed, int64_t layer) {
    return keep_entries({seed, torch::arange(S), layer}, heads, L, 0.5).to(torch::kFloat64) * 2 - 1;
  };
  const auto a = mask(7, 1);
  const double bound = 6 / std::sqrt(static_cast<double>((S - 1) * (heads - 1) * (L - 1) * L));
  for (int64_t d = 0; d < 4; ++d) {
    const int64_t n = a.size(d) - 1;
    EXPECT_LT(std::abs((a.narrow(d, 0, n) * a.narrow(d, 1, n)).mean().item<double>()), bound);
  }
  EXPECT_LT(std::abs((a * mask(7, 2)).mean().item<double>()), bound);
  EXPECT_LT(std::abs((a * mask(8, 1)).mean().item<double>()), bound);
  EXPECT_LT(std::abs((a * a.transpose(2, 3)).mean().item<double>() - 1.0 / L), 2 * bound);
  EXPECT_EQ(keep_entries({1, torch::empty({0}, torch::kInt64)}, 2, 3, 0.5).numel(), 0);
}

}  // namespace
}  // namespace hydramix
