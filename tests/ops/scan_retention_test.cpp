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
    for (const double dt : {1.0, 0.3, 0.0}) {
      auto c = retention({115, 0, 5, 33, 1}, z, dt, ++seed);
      for (auto* t : learned(c)) t->requires_grad_();
      const auto fast = c.run(), dense = test::dense_scan(c);
      const auto what = concat("size ", seed);
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
    auto rounded = single;
    for (auto* t : learned(rounded)) *t = t->to(torch::kBFloat16);
    auto wide = rounded;
    for (auto* t : learned(wide)) *t = t->to(torch::kFloat32);
    const auto rounded_dy = dy.to(torch::kBFloat16);
    const auto stored = results(rounded, rounded_dy),
               computed = results(wide, rounded_dy.to(torch::kFloat32));
    for (std::size_t i = 0; i < stored.size(); ++i)
      EXPECT_TRUE(torch::equal(stored[i], computed[i].to(torch::kBFloat16))) << i;
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
