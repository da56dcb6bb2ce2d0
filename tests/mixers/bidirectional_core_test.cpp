// SPDX-License-Identifier: Apache-2.0
// The mixer `bidirectional` over every causal mixer and in every way of combining: its matrix
// against the definition in terms of the core's own matrix, the law, gradients, layouts, ranks; and
// over semiseparable against hydra, add, mult and concat.
#include <map>
#include <set>

#include "hydramix/block.h"
#include "hydramix/error.h"
#include "support/equal_gradients.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::MixerCase;
using test::random_case;

const std::vector<std::string> kCombinations{"quasi", "add", "mult", "concat"};

struct Variant {
  std::string core, combine;
  bool own_weights;
};

// Every core in every way, half of them with weights of their own in each direction.
std::vector<Variant> all_variants() {
  std::vector<Variant> all;
  for (const auto& core : causal_mixer_names())
    for (const auto& combine : kCombinations)
      all.push_back({core, combine, combine == "add" || combine == "concat"});
  return all;
}

CaseSizes sizes_of(const Variant& v, int64_t B, int64_t L) {
  CaseSizes sizes{.B = B, .L = L};
  sizes.options.core = v.core;
  sizes.options.combine = v.combine;
  sizes.options.own_weights = v.own_weights;
  return sizes;
}

class OverAnyCore : public ::testing::TestWithParam<Variant> {
 protected:
  static MixerCase make(int64_t B, int64_t L, uint64_t seed,
                        torch::ScalarType type = torch::kFloat64) {
    return random_case("bidirectional", sizes_of(GetParam(), B, L), type, seed);
  }
};

// A mixer of the core's own, with the weights that `c` has under `scope`.
std::shared_ptr<Mixer> core_of(const MixerCase& c, const CaseSizes& sizes,
                               const std::string& scope) {
  auto options = sizes.options;
  options.skip = options.combine == "mult" || options.combine == "concat";
  auto core = make_mixer(options.core, sizes.heads, options);
  core->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  for (auto& p : core->named_parameters())
    p.value().copy_(c.mixer->named_parameters()[scope + "." + p.key()]);
  return core;
}

// Proposition 3.7 and table 3, entry by entry, from the matrices of two cores.
TEST_P(OverAnyCore, MatrixIsTheDefinition) {
  const int64_t L = 9;
  const auto sizes = sizes_of(GetParam(), 2, L);
  const auto c = make(2, L, 41);
  const bool own = GetParam().own_weights;
  const auto forward = core_of(c, sizes, own ? "forward" : "core");
  const auto backward = core_of(c, sizes, own ? "backward" : "core");
  const int64_t W = forward->params_width(), H = sizes.heads.H, heads = forward->branches() * H;
  const auto F = forward->materialize(c.params.narrow(2, 0, W), L).expand({2, heads, L, L});
  const auto R =
      backward->materialize(c.params.narrow(2, W, W).flip({1}), L).expand({2, heads, L, L});
  const auto& combine = GetParam().combine;
  const bool two = combine == "mult" || combine == "concat";
  auto expected = torch::zeros({2, (two ? 2 : 1) * heads, L, L}, torch::kFloat64);
  const int64_t late = combine == "quasi" ? 1 : 0;
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < L; ++j) {
      const auto to = expected.select(3, j).select(2, i);
      if (i - late >= 0) to.narrow(1, 0, heads).add_(F.select(3, j).select(2, i - late).detach());
      if (i + late < L)
        to.narrow(1, two ? heads : 0, heads)
            .add_(R.select(3, L - 1 - j).select(2, L - 1 - i - late).detach());
      if (i != j || two) continue;
      const auto diagonal = combine == "quasi" ? c.params.select(1, i).narrow(1, 2 * W, H)
                                               : c.mixer->named_parameters()["D"].detach();
      for (int64_t b = 0; b < forward->branches(); ++b) to.narrow(1, b * H, H).add_(diagonal);
    }
  const auto M = c.mixer->materialize(c.params, L).detach();
  expect_close(M.expand_as(expected), expected, 1e-13, "bidirectional");
}

// params is what each direction's core derives from its own columns, then the diagonal of quasi.
TEST_P(OverAnyCore, DerivesWhatItsTwoCoresDerive) {
  for (const bool own : {false, true}) {
    auto sizes = sizes_of(GetParam(), 2, 6);
    sizes.options.own_weights = own;
    const auto c = random_case("bidirectional", sizes, torch::kFloat64, 48);
    const auto forward = core_of(c, sizes, own ? "forward" : "core");
    const auto backward = core_of(c, sizes, own ? "backward" : "core");
    const auto projected = torch::randn({2, 6, c.mixer->projection_width()}, torch::kFloat64);
    std::map<std::string, torch::Tensor> columns;  // of `projected`, by name
    int64_t begin = 0;
    for (const auto& group : c.mixer->projection()) {
      columns[group.name] = projected.narrow(2, begin, group.width);
      begin += group.width;
    }
    ASSERT_EQ(columns.size(), 2 * forward->projection().size());
    const auto of_direction = [&](const char* suffix) {
      std::vector<torch::Tensor> parts{projected.narrow(2, 0, 0)};
      for (const auto& group : forward->projection()) parts.push_back(columns[group.name + suffix]);
      return torch::cat(parts, 2);
    };
    std::vector<torch::Tensor> expected{forward->derive(of_direction("_f"), c.x),
                                        backward->derive(of_direction("_b"), c.x)};
    if (GetParam().combine == "quasi") {
      auto weights = c.mixer->named_parameters();
      expected.push_back(weights["D"] + torch::matmul(c.x.flatten(2), weights["fc_D.weight"].t()));
    }
    expect_close(c.mixer->derive(projected, c.x).detach(), torch::cat(expected, 2).detach(), 1e-14,
                 own ? "own weights" : "shared weights");
  }
}

TEST_P(OverAnyCore, ObeysTheLaw) {
  for (const int64_t L : {1, 2, 17, 40}) {
    const auto c = make(2, L, 42 + static_cast<uint64_t>(L));
    expect_close(c.mixer->mix(c.x, c.params), dense_apply(c.mixer->materialize(c.params, L), c.x),
                 1e-12, "L = " + std::to_string(L));
  }
  const auto c = make(1, 40, 43);
  const auto layout = Layout::packed(torch::tensor({0, 9, 9, 26, 27, 40}));
  const auto M = c.mixer->materialize(c.params, 40, layout);
  expect_close(layout.to_rows(c.mixer->mix(c.x, c.params, layout)),
               dense_apply(M, layout.to_rows(c.x)), 1e-12, "packed");
}

TEST_P(OverAnyCore, Bfloat16IsRoundedOnce) {
  const auto c = make(2, 33, 44, torch::kBFloat16);
  const auto wide = c.mixer->mix(c.x.to(torch::kFloat32), c.params.to(torch::kFloat32));
  EXPECT_TRUE(torch::equal(c.mixer->mix(c.x, c.params), wide.to(torch::kBFloat16)));
}

TEST_P(OverAnyCore, GradientsEqualThoseOfTheMatrix) {
  auto c = make(1, 23, 45);
  const auto layout = Layout::packed(torch::tensor({0, 9, 10, 23}));
  const auto inputs = test::inputs_with_gradients(c);
  const auto fast = layout.to_rows(c.mixer->mix(c.x, c.params, layout));
  const auto dense = dense_apply(c.mixer->materialize(c.params, 23, layout), layout.to_rows(c.x));
  test::expect_equal_gradients(fast, dense, inputs, 1e-10, "gradient");
}

// Through the block, so that columns, derive() and combine() take part.
TEST_P(OverAnyCore, TheBlockGivesTheSameAloneAndInABatch) {
  torch::manual_seed(46);
  BlockOptions options;
  options.mixer = "bidirectional";
  options.d_model = 6;
  options.headdim = 3;
  options.bias = true;
  options.mixer_options = sizes_of(GetParam(), 1, 1).options;
  Block block(options);
  block->to(torch::kFloat64);
  const auto u = torch::randn({1, 20, 6}, torch::kFloat64);
  const auto packed = block->forward(u, Layout::packed(torch::tensor({0, 7, 8, 20})));
  auto rows = torch::full({3, 15, 6}, std::nan(""), torch::kFloat64);
  auto mask = torch::zeros({3, 15}, torch::kBool);
  const std::vector<std::pair<int64_t, int64_t>> sequences{{0, 7}, {7, 1}, {8, 12}};
  for (int64_t s = 0; s < 3; ++s) {
    const auto [begin, length] = sequences[static_cast<std::size_t>(s)];
    const auto alone = block->forward(u.narrow(1, begin, length));
    expect_close(packed.narrow(1, begin, length), alone, 1e-12, "packed");
    rows[s].narrow(0, s, length).copy_(u[0].narrow(0, begin, length));
    mask[s].narrow(0, s, length).fill_(true);
  }
  const auto padded = block->forward(rows, Layout::padded(mask));
  for (int64_t s = 0; s < 3; ++s) {
    const auto [begin, length] = sequences[static_cast<std::size_t>(s)];
    expect_close(padded[s].narrow(0, s, length), packed[0].narrow(0, begin, length), 1e-12,
                 "padded");
  }
}

TEST_P(OverAnyCore, MetadataAreThoseOfTheCore) {
  const auto& v = GetParam();
  const auto options = sizes_of(v, 1, 1).options;
  const auto info = mixer_info("bidirectional", options), core = mixer_info(v.core, options);
  EXPECT_EQ(info.name, "bidirectional");
  EXPECT_EQ(info.cost, core.cost);
  EXPECT_EQ(info.packed, core.packed);
  EXPECT_EQ(info.capturable, core.capturable);
  EXPECT_EQ(info.extendable, core.extendable);
  // Reversed, these two cores read tokens that the leading block does not hold.
  const bool reads_beyond = v.core == "h3" || v.core == "attention_causal";
  EXPECT_EQ(info.sequence_aligned, core.sequence_aligned && !reads_beyond);
  EXPECT_FALSE(info.causal);
  EXPECT_EQ(make(1, 1, 47).mixer->info().matrix_class, info.matrix_class);
}

INSTANTIATE_TEST_SUITE_P(All, OverAnyCore, ::testing::ValuesIn(all_variants()),
                         [](const auto& test) {
                           const Variant& v = test.param;
                           return v.core + "_" + v.combine + (v.own_weights ? "_own" : "");
                         });

// ---- metadata and options ----

TEST(Bidirectional, RegisteredMetadataAreThoseOfTheDefaultOptions) {
  const auto& registered = mixer_info("bidirectional");
  const auto with = mixer_info("bidirectional", MixerOptions());
  EXPECT_EQ(registered.matrix_class, with.matrix_class);
  EXPECT_EQ(registered.cost, with.cost);
  EXPECT_EQ(registered.packed, with.packed);
  EXPECT_EQ(registered.extendable, with.extendable);
  EXPECT_EQ(registered.sequence_aligned, with.sequence_aligned);
}

TEST(Bidirectional, TakesCausalCoresOnly) {
  EXPECT_THROW_WITH(make_mixer("bidirectional", {2, 2}, {.core = "hydra"}), UsageError,
                    "semiseparable");
  EXPECT_THROW_WITH(make_mixer("bidirectional", {2, 2}, {.core = "bidirectional"}), UsageError,
                    "core");
  EXPECT_THROW_WITH(mixer_info("bidirectional", {.core = "bidirectional"}), UsageError, "core");
}

TEST(Bidirectional, WithoutASkipHasNoD) {
  for (const auto& combine : kCombinations) {
    const auto mixer =
        make_mixer("bidirectional", {2, 3}, {.d_state = 4, .skip = false, .combine = combine});
    for (const auto& p : mixer->named_parameters())
      EXPECT_TRUE(p.key() != "D" && p.key() != "core.D") << combine << ": " << p.key();
  }
}

// ---- over semiseparable: the mixers of table 3 ----

// The weights of `from` under the names of hydra, add, mult and concat.
void copy_weights(const Mixer& from, Mixer& to) {
  torch::NoGradGuard no_grad;
  const auto weights = from.named_parameters();
  for (auto& p : to.named_parameters()) {
    const auto* found = weights.find(p.key());
    p.value().copy_(found != nullptr ? *found : weights["core." + p.key()]);
  }
}

TEST(Bidirectional, OverSemiseparableIsHydraAndTheHeuristics) {
  const std::map<std::string, std::string> twins{
      {"quasi", "hydra"}, {"add", "add"}, {"mult", "mult"}, {"concat", "concat"}};
  for (const auto& [combine, name] : twins) {
    const Variant variant{"semiseparable", combine, false};
    const auto sizes = sizes_of(variant, 2, 37);
    const auto c = random_case("bidirectional", sizes, torch::kFloat64, 51);
    const auto twin = make_mixer(name, sizes.heads, sizes.options);
    twin->to(torch::kFloat64);
    copy_weights(*c.mixer, *twin);
    // The same columns, in the same order, and the same params made of them.
    ASSERT_EQ(c.mixer->projection_width(), twin->projection_width());
    for (std::size_t i = 0; i < twin->projection().size(); ++i)
      EXPECT_EQ(c.mixer->projection()[i].name, twin->projection()[i].name);
    const auto projected = torch::randn({2, 37, twin->projection_width()}, torch::kFloat64);
    const auto ours = c.mixer->derive(projected, c.x), theirs = twin->derive(projected, c.x);
    // 1e-15: the steps of a reversed sequence fall on other lanes of the vectorised softplus.
    expect_close(c.mixer->materialize(ours, 37), twin->materialize(theirs, 37), 1e-15, name);
    const auto y = c.mixer->mix(c.x, ours), twin_y = twin->mix(c.x, theirs);
    expect_close(y, twin_y, 1e-13, name);
    EXPECT_EQ(c.mixer->combined_heads(), twin->combined_heads());
    expect_close(c.mixer->combine(y), twin->combine(twin_y), 1e-13, name);
  }
}

// ---- ranks ----

int64_t rank_of(const torch::Tensor& block) {
  const auto s = torch::linalg_svdvals(block);
  return (s > 1e-10 * s.max()).sum().item<int64_t>();
}

// The state size N of each core that is a recurrence: M_ij = c_i A_{i:j} b_j with N numbers in c_i
// and b_j (docs/math.md).
std::map<std::string, int64_t> state_sizes(const MixerOptions& o) {
  const int64_t N = o.d_state, d = o.qk_dim, pairs = (N + 1) / 2;
  return {{"semiseparable", N},    // b_j in R^N
          {"s6", N},               // one decay for each of N entries
          {"retnet", d},           // rotations keep the d entries of a key
          {"gla", d},              // one gate for each of d entries
          {"transnormer", 2 * d},  // cos(theta (i - j)) of each channel: a cosine and a sine
          {"lru", 2},              // Re or Im of one complex state
          {"s4", 2 * pairs},       // conjugate pairs of poles: two real numbers each
          {"s4d", 2 * pairs},
          {"gss", 2 * N},          // N complex poles without their conjugates
          {"h3", 2 * pairs * d}};  // an entry-wise product of s4d's matrix and one of rank d
}

// Their kernels are no sums of few exponentials, and a softmax has no state.
const std::set<std::string> kNoRecurrences{"attention_causal", "ckconv", "hyena", "tnn"};

// The largest rank of a block of M (H, L, L) that ends at the diagonal: strictly below it for
// overlap 0, with one entry of it for overlap 1.
int64_t largest_rank(const torch::Tensor& M, int64_t overlap) {
  const int64_t L = M.size(1);
  int64_t rank = 0;
  for (int64_t h = 0; h < M.size(0); ++h)
    for (int64_t i = 1; i < L; ++i)
      rank = std::max(rank, rank_of(M[h].narrow(0, i, L - i).narrow(1, 0, i + overlap)));
  return rank;
}

TEST(Bidirectional, EveryCoreIsARecurrenceOfKnownSizeOrNone) {
  const auto known = state_sizes({});
  for (const auto& core : causal_mixer_names())
    EXPECT_EQ(known.count(core) + kNoRecurrences.count(core), 1u)
        << core << ": name it in state_sizes() or in kNoRecurrences";
}

// Definition 3.2. Every block on or below the diagonal of a core with state size N has rank <= N;
// quasi moves these blocks off the diagonal.
TEST(Bidirectional, BlocksOffTheDiagonalHaveAtMostTheRankOfTheState) {
  const int64_t L = 48;
  auto sizes = sizes_of({"", "quasi", false}, 1, L);
  sizes.options.d_state = 3;
  for (const auto& [core, N] : state_sizes(sizes.options)) {
    ASSERT_LT(N, L / 3) << core;
    sizes.options.core = core;
    const auto c = random_case("bidirectional", sizes, torch::kFloat64, 62);
    const auto M = c.mixer->materialize(c.params, L)[0].detach();
    // The diagonal and the rest in the same size, because ranks are relative to the largest
    // entries.
    const auto diagonal = torch::diag_embed(M.diagonal(0, 1, 2)), off = M - diagonal;
    const auto size = [](const torch::Tensor& t) { return t.abs().amax({1, 2}, true); };
    const auto scaled = off / size(off) + diagonal / size(diagonal);
    for (const auto& triangle : {scaled, scaled.transpose(1, 2)}) {
      const int64_t rank = largest_rank(triangle, 0);
      EXPECT_LE(rank, N) << core;
      // A smooth kernel falls somewhat short of its rank in float64.
      EXPECT_GT(2 * rank, N) << core;
      if (rank == N) {
        EXPECT_GT(largest_rank(triangle, 1), N) << core << ": the diagonal is not free";
      }
      if (core == "semiseparable") {
        EXPECT_EQ(rank, N);
      }
    }
  }
}

}  // namespace
}  // namespace hydramix
