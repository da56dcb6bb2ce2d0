// SPDX-License-Identifier: Apache-2.0
// The flags of every mixer, decided by experiment in float64: sequence alignment and extendability
// (definition 2.2 of the paper, propositions 2.3 and 2.4), causality. And the tile changes nothing.
#include <set>

#include "hydramix/error.h"
#include "support/configurations.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::Configuration;
using test::expect_close;
using test::random_case;

// Flags may depend on the options. Of `bidirectional` they do so on core and way of combining.
std::vector<Configuration> configurations() {
  auto all = test::configurations(matrix_mixer_names());
  for (const std::string combine : {"quasi", "add", "mult", "concat"}) {
    for (const auto& core : causal_mixer_names())
      if (combine != "quasi" || core == MixerOptions().core)
        all.push_back(test::over_core(core, combine));
    all.push_back(test::over_core("hyena", combine));
    all.back().changes.push_back("order=3");
  }
  return all;
}

torch::Tensor without_diagonal(const torch::Tensor& M) {
  return M - torch::diag_embed(M.diagonal(0, -2, -1));
}

// Definition 2.2 for one leading block, by experiment.
struct LeadingBlock {
  bool ignores_later;       // neither changing nor adding later tokens changes it
  bool depends_on_its_own;  // changing its own tokens changes it
};

LeadingBlock leading_block(const std::string& name, const MixerOptions& options, int64_t prefix) {
  const int64_t L = 18;
  const auto c = random_case(name, {.B = 1, .L = L, .options = options}, torch::kFloat64, 10);
  const auto block = [&](const torch::Tensor& params) {
    const auto M = c.mixer->materialize(params, params.size(1))[0].detach();
    return M.narrow(1, 0, prefix).narrow(2, 0, prefix);
  };
  // Rows up to their normaliser, if the mixer has one. A residual on the diagonal is not part of
  // the normalised rows.
  const auto comparable = [&](const torch::Tensor& M) {
    if (!mixer_info(name, options).row_normalized) return M;
    const auto off = without_diagonal(M);
    return off / off.sum(-1, /*keepdim=*/true);
  };
  const auto base = block(c.params);
  const auto unchanged = [&](const torch::Tensor& params) {
    return test::relative_error(comparable(block(params)), comparable(base)) < 1e-12;
  };
  auto later = c.params.clone(), earlier = c.params.clone();
  later.narrow(1, prefix, L - prefix).add_(1.0);
  earlier.narrow(1, 0, prefix).add_(torch::randn({1, prefix, c.params.size(2)}, torch::kFloat64));
  // Entries between tokens decide. A diagonal made of the tokens, such as D + fc_D x in
  // quasiseparable_di, mixes none of them.
  const auto between = [&](const torch::Tensor& M) { return comparable(without_diagonal(M)); };
  return {unchanged(later) && unchanged(c.params.narrow(1, 0, prefix)),
          test::relative_error(between(block(earlier)), between(base)) > 1e-6};
}

void expect_the_registered_alignment(const std::string& name, const MixerOptions& options) {
  const auto info = mixer_info(name, options);
  bool ignores_later = true, depends_on_its_own = true;
  std::string seen;
  for (const int64_t prefix : {1, 4, 11, 17}) {
    if (prefix == 1 && info.row_normalized) continue;  // a row of one entry is its normaliser
    const auto one = leading_block(name, options, prefix);
    ignores_later = ignores_later && one.ignores_later;
    // A single token has no entries off the diagonal.
    if (prefix > 1) depends_on_its_own = depends_on_its_own && one.depends_on_its_own;
    seen += concat("\nprefix ", prefix, ": ignores later tokens: ", one.ignores_later,
                   ", depends on its own: ", one.depends_on_its_own);
  }
  EXPECT_EQ(ignores_later && depends_on_its_own, info.sequence_aligned) << seen;
}

// Matrices and products without the check that refuses long sequences.
struct Unchecked : Mixer {
  static torch::Tensor matrix_at(const Mixer& mixer, int64_t L) {
    const auto params = torch::randn({1, L, mixer.params_width()}, torch::kFloat64);
    return matrix_of(mixer, params, rows(L));
  }
  // Whether the formula and the weights give L x L finite entries.
  static bool has_matrix(const Mixer& mixer, int64_t L) {
    try {
      const auto M = matrix_at(mixer, L);
      return M.size(2) == L && M.size(3) == L && torch::isfinite(M).all().item<bool>();
    } catch (const std::exception&) {
      return false;
    }
  }
  static bool has_product(const Mixer& mixer, int64_t L) {
    const auto x = torch::randn({1, L, mixer.heads().H, mixer.heads().P}, torch::kFloat64);
    try {
      const auto y = product_of(mixer, x, torch::zeros({1, L, 0}, torch::kFloat64), rows(L));
      return y.sizes() == x.sizes() && torch::isfinite(y).all().item<bool>();
    } catch (const std::exception&) {
      return false;
    }
  }

 private:
  static Rows rows(int64_t L) {
    return {.S = 1,
            .L = L,
            .valid = {},
            .options = torch::TensorOptions(torch::kFloat64),
            .given = torch::kFloat64,
            .dropout = {}};
  }
};

class Alignment : public ::testing::TestWithParam<Configuration> {
 protected:
  static MixerInfo info() { return mixer_info(GetParam().mixer, GetParam().options()); }
  static test::MixerCase make(const CaseSizes& sizes, uint64_t seed) {
    return random_case(GetParam(), sizes, torch::kFloat64, seed);
  }
};

TEST_P(Alignment, HoldsExactlyForMixersRegisteredAsAligned) {
  expect_the_registered_alignment(GetParam().mixer, GetParam().options());
}

TEST_P(Alignment, ExtendableMixersGoBeyondTheirTrainedLengthAndOthersSaySo) {
  CaseSizes sizes{.B = 1, .L = 40};
  sizes.options.max_length = 16;
  const auto c = make(sizes, 11);
  if (!info().extendable) {
    EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params), Error,
                      "a sequence of length 40 is longer than max_length = 16");
    EXPECT_THROW_WITH(c.mixer->materialize(c.params, 40), Error, "is longer than max_length = 16");
    EXPECT_NO_THROW(c.mixer->mix(c.x.narrow(1, 0, 16), c.params.narrow(1, 0, 16)));
    // The mask may be wider than the longest sequence.
    EXPECT_NO_THROW(
        c.mixer->mix(c.x, c.params, Layout::padded(torch::arange(40).unsqueeze(0) < 16)));
    return;
  }
  const auto M = c.mixer->materialize(c.params, 40);
  expect_close(c.mixer->mix(c.x, c.params), dense_apply(M, c.x), 1e-12, GetParam().mixer);
}

// Not extendable although their formulas go on, because these repeat themselves: vandermonde_dft
// with the period max_length, a kaleidoscope with the power of two that holds it.
const std::set<std::string> kRepeating{"kaleidoscope", "vandermonde_dft"};

// A mixer that refuses long sequences has no matrix for them, or only a repetition.
TEST_P(Alignment, OnlyExtendableMixersHaveEntriesBeyondTheirTrainedLength) {
  CaseSizes sizes{.B = 1, .L = 16};
  sizes.options.max_length = 16;
  const auto c = make(sizes, 14);
  EXPECT_TRUE(Unchecked::has_matrix(*c.mixer, 16));
  for (const int64_t L : {17, 40})
    EXPECT_EQ(Unchecked::has_matrix(*c.mixer, L),
              info().extendable || kRepeating.contains(GetParam().mixer))
        << L;
}

TEST(Theory, MixersThatGoOnWithoutBeingExtendableRepeatThemselves) {
  const int64_t n = 16;
  for (const auto& name : kRepeating) {
    EXPECT_FALSE(mixer_info(name).extendable) << name;
    const auto mixer = make_mixer(name, {2, 3}, {.max_length = n});
    mixer->to(torch::kFloat64);
    auto M = Unchecked::matrix_at(*mixer, 2 * n)[0].detach();
    if (name == "vandermonde_dft") M = M - torch::eye(2 * n, torch::kFloat64);  // the residual
    expect_close(M.narrow(1, n, n), M.narrow(1, 0, n), 1e-13, name + ", rows");
    expect_close(M.narrow(2, n, n), M.narrow(2, 0, n), 1e-13, name + ", columns");
  }
}

TEST(Theory, TheNonlinearMlpMixerHasNoWeightsBeyondItsTrainedLength) {
  const auto mixer = make_mixer("mlp_mixer_nonlinear", {2, 3}, {.max_length = 16});
  mixer->to(torch::kFloat64);
  EXPECT_TRUE(Unchecked::has_product(*mixer, 16));
  EXPECT_FALSE(Unchecked::has_product(*mixer, 17));
  EXPECT_FALSE(mixer->info().extendable);
}

TEST_P(Alignment, CausalMixersHaveNothingAboveTheDiagonal) {
  const auto c = make({.B = 1, .L = 20}, 12);
  const bool causal =
      c.mixer->materialize(c.params, 20).triu(1).count_nonzero().item<int64_t>() == 0;
  EXPECT_EQ(causal, info().causal);
}

TEST_P(Alignment, TheTileDoesNotMatter) {
  const auto reference = make({.L = 61}, 13);
  for (const int64_t tile : {1, 2, 60, 61, 62, 1000}) {
    CaseSizes sizes{.L = 61};
    sizes.options.tile = tile;
    const auto c = make(sizes, 13);
    expect_close(c.mixer->mix(c.x, c.params), reference.mixer->mix(c.x, c.params), 1e-12,
                 GetParam().mixer);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Alignment, ::testing::ValuesIn(configurations()),
                         test::configuration_name);

}  // namespace
}  // namespace hydramix
