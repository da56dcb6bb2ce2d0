// SPDX-License-Identifier: Apache-2.0
// Scans with fixed decays and own keys for every head, which have a kernel of their own: against
// their matrices and against the general kernel, on every instruction set.
#include <cmath>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "ops/cpu/scan_retention.h"
#include "scan_case.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::everything_of_scan;
using test::expect_close;
using test::inside_wider_rows;
using test::random_scan;
using test::ScanCase;
using test::ScanSizes;
using torch::Tensor;

ScanCase retention(const std::vector<int64_t>& lengths, ScanSizes z, double dt, uint64_t seed) {
  z.G = z.H, z.shift = 0, z.backward = false, z.per_token = false;
  auto c = random_scan(lengths, z, seed);
  c.settings.dt_low = c.settings.dt_high = dt;
  return c;
}

std::vector<Tensor*> learned(ScanCase& c) { return {&c.x, &c.forward.b, &c.forward.c}; }

ScanCase rounded(const ScanCase& of) {
  auto c = of.to(torch::kFloat32);
  for (auto* t : learned(c)) *t = t->to(torch::kBFloat16);
  return c;
}

// The output, and the gradients of x, b and c. With those of the decays the general kernel runs.
std::vector<Tensor> results(ScanCase c, const Tensor& dy, bool decay_gradients = false) {
  for (auto* t : learned(c)) *t = t->detach().requires_grad_();
  c.A = c.A.detach().requires_grad_(decay_gradients);
  std::vector<Tensor> all{c.run()};
  std::vector<Tensor> inputs;
  for (auto* t : learned(c)) inputs.push_back(*t);
  for (const auto& g : torch::autograd::grad({all[0]}, inputs, {dy})) all.push_back(g);
  return all;
}

void expect_all_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance,
                      const std::string& what) {
  for (std::size_t i = 0; i < a.size(); ++i)
    expect_close(a[i], b[i], tolerance, concat(what, ", result ", i));
}

// The output with and without gradients, and the gradients, in float64.
void expect_equals_the_matrix(ScanCase c, const std::string& what) {
  for (auto* t : learned(c)) t->requires_grad_();
  const auto fast = c.run(), dense = test::dense_scan(c);
  expect_close(fast, dense, 1e-12, what);
  {
    const torch::NoGradGuard no_grad;  // states are not saved
    EXPECT_TRUE(torch::equal(c.run(), fast)) << what;
  }
  const auto dy = torch::randn_like(dense);
  const std::vector<Tensor> inputs{c.x, c.forward.b, c.forward.c};
  const auto a = torch::autograd::grad({fast}, inputs, {dy});
  const auto b = torch::autograd::grad({dense}, inputs, {dy});
  expect_all_close(a, b, 1e-12, what + " gradients");
}

void expect_equal_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                       const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(torch::equal(a[i], b[i])) << what << ", result " << i;
}

class ScanRetention : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(ScanRetention, EqualsTheMatrix) {
  uint64_t seed = 0;
  for (const ScanSizes& z : std::vector<ScanSizes>{{.H = 1, .P = 1, .N = 1, .tile = 1},
                                                   {.H = 3, .P = 17, .N = 19, .tile = 50},
                                                   {.H = 3, .P = 33, .N = 18, .tile = 64},
                                                   {.H = 2, .P = 16, .N = 33, .tile = 17},
                                                   {.H = 2, .P = 65, .N = 5, .tile = 1000}})
    for (const double dt : {1.0, 0.3, 0.0})
      expect_equals_the_matrix(retention({115, 0, 5, 33, 1}, z, dt, ++seed), concat("size ", seed));
}

// A tile is at most 256, so that these have several chunks.
TEST_P(ScanRetention, EqualsTheMatrixOfSequencesLongerThanTheLongestTile) {
  for (const int64_t tile : {300, 1000})
    expect_equals_the_matrix(
        retention({600, 0, 257, 256}, {.H = 2, .P = 3, .N = 2, .tile = tile}, 0.5, 41),
        concat("tile ", tile));
}

TEST_P(ScanRetention, EqualsTheMatrixOfManySingleTokensBesideALongSequence) {
  std::vector<int64_t> lengths(200, 1);
  lengths[77] = 301;
  expect_equals_the_matrix(retention(lengths, {.H = 2, .P = 4, .N = 3}, 1, 42), "one long");
}

TEST_P(ScanRetention, TakesNoTokensAndOnlyEmptySequences) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, std::vector<int64_t>{0, 0}}) {
    const auto c = retention(lengths, {.H = 3, .P = 4, .N = 2}, 1, 43).to(torch::kFloat32);
    for (const bool decay_gradients : {false, true})
      for (const auto& t : results(c, torch::zeros_like(c.x), decay_gradients)) {
        EXPECT_EQ(t.size(0), 0);
        EXPECT_EQ(t.size(1), 3);
      }
    const torch::NoGradGuard no_grad;
    EXPECT_EQ(c.run().sizes(), c.x.sizes());
  }
}

TEST_P(ScanRetention, EqualsTheGeneralKernelInEveryType) {
  for (const double rate : {0.0, 1e-4, 0.05, 3.0, 1e4}) {
    auto c = retention({200, 70}, {.H = 3, .P = 32, .N = 32, .tile = 64}, 1, 31);
    c.A.fill_(-rate);
    const auto dy = torch::randn_like(c.x);
    expect_all_close(results(c, dy), results(c, dy, true), 1e-12, concat("rate ", rate));
    const auto single = c.to(torch::kFloat32);
    expect_all_close(results(single, dy.to(torch::kFloat32)), results(c, dy), 3e-6,
                     concat("float32, rate ", rate));
  }
}

// In bfloat16, in every row stride and with columns that do not fill a vector: the bits of float32,
// rounded.
TEST_P(ScanRetention, RoundsItsResultsToBfloat16) {
  for (const ScanSizes& z : std::vector<ScanSizes>{{.H = 3, .P = 32, .N = 32, .tile = 64},
                                                   {.H = 3, .P = 17, .N = 19, .tile = 50},
                                                   {.H = 2, .P = 5, .N = 33, .tile = 64},
                                                   {.H = 1, .P = 1, .N = 1, .tile = 16}})
    for (const double rate : {0.0, 0.05, 1e4}) {
      auto c = retention({200, 70}, z, 1, 31);
      c.A.fill_(-rate);
      const auto stored = rounded(c);
      auto wide = stored;
      for (auto* t : learned(wide)) *t = t->to(torch::kFloat32);
      const auto dy = torch::randn_like(c.x).to(torch::kBFloat16);
      auto expected = results(wide, dy.to(torch::kFloat32));
      for (auto& t : expected) t = t.to(torch::kBFloat16);
      const auto what = concat("P ", z.P, ", N ", z.N, ", rate ", rate);
      expect_equal_bits(results(stored, dy), expected, what);
      auto strided = stored;
      for (auto* t : learned(strided)) *t = inside_wider_rows(*t);
      expect_equal_bits(results(strided, inside_wider_rows(dy)), expected, what + ", strided");
    }
}

TEST_P(ScanRetention, GivesTheSameBitsForAnyThreadsStridesAndBatch) {
  const auto c =
      retention({130, 7, 64}, {.H = 4, .P = 20, .N = 9, .tile = 32}, 1, 11).to(torch::kFloat32);
  const auto dy = torch::randn_like(c.x);
  const auto one = test::same_for_any_threads([&] { return results(c, dy); });
  auto strided = c;
  for (auto* t : learned(strided)) *t = inside_wider_rows(*t);
  const auto wide = results(strided, inside_wider_rows(dy));
  ScanCase alone = c;
  alone.offsets = {0, 7};
  for (auto* t : {&alone.x, &alone.forward.dt, &alone.forward.b, &alone.forward.c})
    *t = t->narrow(0, 130, 7);
  const auto single = results(alone, dy.narrow(0, 130, 7));
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(torch::equal(wide[i], one[i])) << i;
    EXPECT_TRUE(torch::equal(single[i], one[i].narrow(0, 130, 7))) << i;
  }
}

// Each of x, b and c alone, and the diagonal alone, for which the general kernel runs.
TEST_P(ScanRetention, ComputesTheGradientsThatAreWanted) {
  const auto c = retention({130, 0, 7}, {.H = 2, .P = 5, .N = 3, .tile = 32}, 1, 13);
  const auto dy = torch::randn_like(c.x);
  const auto all = results(c, dy);
  for (std::size_t i = 0; i < 3; ++i) {
    auto one = c;
    auto& wanted = *learned(one)[i];
    wanted = wanted.detach().requires_grad_();
    const auto y = one.run();
    EXPECT_TRUE(torch::equal(y, all[0])) << i;
    EXPECT_TRUE(torch::equal(torch::autograd::grad({y}, {wanted}, {dy})[0], all[i + 1])) << i;
  }
  auto diagonal = c;
  diagonal.delta = c.delta.detach().requires_grad_();
  const auto y = diagonal.run();
  expect_close(y, all[0], 1e-12, "with a learned diagonal");
  expect_close(torch::autograd::grad({y}, {diagonal.delta}, {dy})[0], (c.x * dy).sum(2).sum(0),
               1e-12, "gradient of the diagonal");
}

// Decays that come from weights have gradients in training only.
TEST_P(ScanRetention, GivesTheSameBitsWithAndWithoutGradientsOfItsDecays) {
  auto c = retention({130, 7}, {.H = 3, .P = 20, .N = 9, .tile = 32}, 1, 14).to(torch::kFloat32);
  c.settings.learned_decays = true;
  const auto training = results(c, torch::ones_like(c.x), /*decay_gradients=*/true);
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(c.run(), training[0]));
}

// One diagonal for all heads, and every second of a wider one.
TEST_P(ScanRetention, TakesDiagonalsOfAnyStride) {
  auto c = retention({50, 20}, {.H = 4, .P = 5, .N = 3}, 1, 15).to(torch::kFloat32);
  const auto dy = torch::randn_like(c.x);
  const auto wide = torch::stack({c.delta, torch::full({4}, NAN)}, 1);
  for (const auto& diagonal : {torch::ones({1}).expand({4}), wide.select(1, 0)})
    for (const bool decay_gradients : {false, true}) {
      c.delta = diagonal.contiguous();
      const auto expected = results(c, dy, decay_gradients);
      c.delta = diagonal;
      ASSERT_FALSE(c.delta.is_contiguous());
      expect_equal_bits(results(c, dy, decay_gradients), expected, concat(decay_gradients));
    }
}

// A token that is not finite changes nothing before its chunk, and no other sequence.
TEST_P(ScanRetention, ABadNumberStaysInItsSequence) {
  for (const float bad : {NAN, INFINITY})
    for (const int which : {0, 1, 2}) {
      auto c =
          retention({33, 60, 40}, {.H = 2, .P = 5, .N = 3, .tile = 16}, 1, 12).to(torch::kFloat32);
      const auto dy = torch::zeros_like(c.x);
      const auto clean = c.run();
      (*learned(c)[static_cast<std::size_t>(which)])[33 + 20].fill_(bad);
      const auto y = c.run();
      EXPECT_TRUE(torch::equal(y.narrow(0, 0, 49), clean.narrow(0, 0, 49))) << which;
      EXPECT_TRUE(torch::equal(y.narrow(0, 93, 40), clean.narrow(0, 93, 40))) << which;
      EXPECT_FALSE(torch::isfinite(y.narrow(0, 53, 40)).all().item<bool>()) << which;
      const auto got = results(c, torch::ones_like(dy));
      for (std::size_t i = 1; i < got.size(); ++i) {
        EXPECT_TRUE(torch::isfinite(got[i].narrow(0, 0, 33)).all().item<bool>()) << i;
        EXPECT_TRUE(torch::isfinite(got[i].narrow(0, 93, 40)).all().item<bool>()) << i;
      }
    }
}

// Nor does a gradient that is not finite: the other sequences keep their bits.
TEST_P(ScanRetention, ABadGradientStaysInItsSequence) {
  const auto c =
      retention({33, 60, 40}, {.H = 2, .P = 5, .N = 3, .tile = 16}, 1, 16).to(torch::kFloat32);
  const auto dy = torch::randn_like(c.x);
  const auto clean = results(c, dy);
  for (const float bad : {NAN, INFINITY}) {
    auto upstream = dy.clone();
    upstream[33 + 20].fill_(bad);
    const auto got = results(c, upstream);
    for (std::size_t i = 1; i < got.size(); ++i) {
      EXPECT_TRUE(torch::equal(got[i].narrow(0, 0, 33), clean[i].narrow(0, 0, 33))) << i;
      EXPECT_TRUE(torch::equal(got[i].narrow(0, 93, 40), clean[i].narrow(0, 93, 40))) << i;
      EXPECT_FALSE(torch::isfinite(got[i].narrow(0, 33, 60)).all().item<bool>()) << i;
    }
  }
}

// The general kernel where the decays need no gradients, for a diagonal of heads that
// share keys.
TEST_P(ScanRetention, LeavesGroupsOfHeadsToTheGeneralKernel) {
  auto c = random_scan({130, 0, 7},
                       {.H = 4,
                        .P = 5,
                        .G = 2,
                        .N = 3,
                        .tile = 32,
                        .shift = 0,
                        .backward = false,
                        .per_token = false},
                       17);
  c.settings.dt_low = c.settings.dt_high = 0.5;
  const auto dy = torch::randn_like(c.x);
  const auto all = everything_of_scan(c, dy);  // y, x, delta, dt, b, c
  expect_equal_bits(results(c, dy), {all[0], all[1], all[4], all[5]}, "without decays");
  expect_close(all[0], test::dense_scan(c), 1e-12, "output");
}

TEST(ScanRetentionCalls, AreThoseWithFixedDecaysAndKeysPerHead) {
  const auto base = [] {
    const auto c = retention({20}, {.H = 2}, 1, 3);
    return ScanCall{.x = c.x,
                    .direction = {c.forward, {}},
                    .dt_bias = c.dt_bias,
                    .A = c.A,
                    .diagonal = c.delta,
                    .delta = {},
                    .settings = c.settings,
                    .sequences = c.offsets,
                    .decay_gradients = false};
  };
  EXPECT_TRUE(on_cpu::is_retention(base()));
  std::vector<std::function<void(ScanCall&)>> others{
      [](ScanCall& c) { c.settings.shift = 1; },
      [](ScanCall& c) { c.settings.dt_low = 0.5; },
      [](ScanCall& c) { c.settings.dt_low = c.settings.dt_high = INFINITY; },
      [](ScanCall& c) { c.decay_gradients = true; },
      [](ScanCall& c) { c.settings.learned_decays = true; },
      [](ScanCall& c) { c.direction[1] = c.direction[0]; },
      [](ScanCall& c) { c.direction[0].b = c.direction[0].b.narrow(1, 0, 1); },
      [](ScanCall& c) { std::swap(c.diagonal, c.delta); }};
  for (std::size_t i = 0; i < others.size(); ++i) {
    auto call = base();
    others[i](call);
    EXPECT_FALSE(on_cpu::is_retention(call)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScanRetention, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

}  // namespace
}  // namespace hydramix
