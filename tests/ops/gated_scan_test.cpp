// SPDX-License-Identifier: Apache-2.0
#include "ops/gated_scan.h"

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "ops/semiseparable.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;

struct GatedCase {
  torch::Tensor x, q, k, g, dy;
  Sequences sequences{{0}};

  torch::Tensor run(int64_t tile) const { return gated_scan(x, {q, k, g}, sequences, tile); }
  std::vector<torch::Tensor> inputs() const { return {x, q, k, g}; }
  // The recurrence, sequence by sequence.
  torch::Tensor reference() const {
    std::vector<torch::Tensor> y{x.narrow(0, 0, 0)};
    const auto& offsets = sequences.offsets();
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      const auto part = [&](const torch::Tensor& t) {
        return t.slice(0, offsets[s], offsets[s + 1]).unsqueeze(0);
      };
      if (offsets[s + 1] > offsets[s])
        y.push_back(gated_scan_ref(part(x), {part(q), part(k), part(g)})[0]);
    }
    return torch::cat(y);
  }
};

// Gates from almost one to almost zero.
GatedCase random_gated(const std::vector<int64_t>& lengths, int64_t H, int64_t P, int64_t N,
                       torch::ScalarType type = torch::kFloat64) {
  torch::manual_seed(41);
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  const int64_t n = offsets.back();
  const auto random = [&](int64_t width) { return torch::randn({n, H, width}, torch::kFloat64); };
  GatedCase c;
  c.x = random(P), c.q = random(N), c.k = random(N), c.dy = random(P);
  c.g = -torch::exp(3 * random(N) - 2);
  c.sequences = Sequences(offsets);
  for (auto* t : {&c.x, &c.q, &c.k, &c.g, &c.dy}) *t = t->to(type);
  return c;
}

std::vector<torch::Tensor> gradients_of(const GatedCase& c, const torch::Tensor& y) {
  return torch::autograd::grad({y}, c.inputs(), {c.dy.to(y.scalar_type())});
}

void expect_equals_gated_recurrence(GatedCase c, int64_t tile, const std::string& what) {
  for (auto& t : c.inputs()) t.requires_grad_();
  const auto fast = c.run(tile), slow = c.reference();
  // 1e-12: a chain of gates rounds once per position, of which only some hundred have weight.
  expect_close(fast, slow, 1e-12, what);
  const auto a = gradients_of(c, fast), b = gradients_of(c, slow);
  for (std::size_t i = 0; i < a.size(); ++i)
    expect_close(a[i], b[i], 1e-12, what + ", gradient " + std::to_string(i));
}

class GatedScan : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(GatedScan, EqualsTheRecurrence) {
  struct Sizes {
    int64_t H, P, N, tile;
  };
  // Vectors, blocks of 16 and chunks, each cut short and exact.
  for (const auto& s :
       std::vector<Sizes>{{1, 1, 1, 64}, {2, 16, 16, 32}, {3, 5, 17, 20}, {1, 33, 7, 1}})
    for (const int64_t L : {1, 15, 16, 17, 33, 64, 101})
      expect_equals_gated_recurrence(random_gated({L}, s.H, s.P, s.N), s.tile,
                                     concat("L ", L, ", P ", s.P, ", N ", s.N, ", tile ", s.tile));
}

TEST_P(GatedScan, SequencesAreSeparate) {
  expect_equals_gated_recurrence(random_gated({9, 0, 40, 1, 0, 33}, 2, 3, 4), 16, "packed");
}

TEST_P(GatedScan, Float32IsCloseToFloat64) {
  auto wide = random_gated({300}, 2, 24, 20),
       narrow = random_gated({300}, 2, 24, 20, torch::kFloat32);
  for (auto& t : wide.inputs()) t.requires_grad_();
  for (auto& t : narrow.inputs()) t.requires_grad_();
  const auto exact = wide.run(64), single = narrow.run(64);
  // 3e-6: products of 64 gates, each rounded, and sums of 64.
  EXPECT_LT(test::relative_error(single, exact), 3e-6);
  const auto a = gradients_of(narrow, single), b = gradients_of(wide, exact);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(test::relative_error(a[i], b[i]), 5e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(All, GatedScan, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(GatedScanGates, ZeroSeparatesAndOneKeepsEverything) {
  auto c = random_gated({50}, 2, 3, 4);
  c.g = torch::zeros_like(c.g);
  c.g[20] = -std::numeric_limits<double>::infinity();
  for (auto& t : c.inputs()) t.requires_grad_();
  const auto y = c.run(16);
  const auto scores = torch::einsum("ihn,jhn->hij", {c.q, c.k}).tril();
  const auto same = (torch::arange(50) >= 20).unsqueeze(1) == (torch::arange(50) >= 20);
  expect_close(y, torch::einsum("hij,jhp->ihp", {scores * same, c.x}), 1e-12, "two halves");
  for (const auto& gradient : gradients_of(c, y))
    EXPECT_TRUE(torch::isfinite(gradient).all().item<bool>());
}

TEST(GatedScanGates, ByHalvesEqualsTheRecurrenceWithGradients) {
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{2}, {37}, {5, 0, 64, 1, 30}}) {
    auto c = random_gated(lengths, 2, 3, 4);
    for (auto& t : c.inputs()) t.requires_grad_();
    const auto fast = gated_scan_by_halves(c.x, {c.q, c.k, c.g}, c.sequences);
    const auto slow = c.reference();
    expect_close(fast, slow, 1e-12, "by halves");
    const auto a = gradients_of(c, fast), b = gradients_of(c, slow);
    for (std::size_t i = 0; i < a.size(); ++i) expect_close(a[i], b[i], 1e-12, "gradient");
  }
}

// exp(dt A) for every channel, k = dt b: the scan of Mamba-2.
TEST(GatedScanGates, EqualInAllChannelsAreTheScanOfMamba2) {
  torch::manual_seed(43);
  const int64_t L = 45, H = 2, N = 5;
  const auto options = torch::TensorOptions(torch::kFloat64);
  const auto x = torch::randn({1, L, H, 3}, options), b = torch::randn({1, L, H, N}, options),
             c = torch::randn({1, L, H, N}, options), dt = torch::rand({1, L, H}, options);
  const auto A = -torch::rand({H}, options);
  const auto g = (dt * A).unsqueeze(-1).expand({1, L, H, N});
  expect_close(gated_scan(x[0], {c[0], (dt.unsqueeze(-1) * b)[0], g[0]}, Sequences({0, L}), 16),
               semiseparable_scan_ref(x, {dt, A, b, c})[0], 1e-12, "SSD");
}

TEST(GatedScanGates, TheMatrixIsTheRecurrenceAppliedToUnitVectors) {
  const auto c = random_gated({23}, 2, 23, 4);
  const auto unit = torch::eye(23, torch::kFloat64).unsqueeze(1).expand({23, 2, 23});
  const auto M = gated_matrix({c.q.unsqueeze(0), c.k.unsqueeze(0), c.g.unsqueeze(0)})[0];
  const auto rows =
      gated_scan_ref(unit.unsqueeze(0), {c.q.unsqueeze(0), c.k.unsqueeze(0), c.g.unsqueeze(0)})[0];
  expect_close(M, rows.transpose(0, 1), 1e-13, "matrix");
}

TEST(GatedScanBits, DependNeitherOnOtherSequencesNorOnThreads) {
  const auto c = random_gated({40, 70}, 3, 4, 5, torch::kFloat32);
  const auto y = test::same_for_any_threads([&] { return std::vector{c.run(32)}; })[0];
  const auto alone =
      gated_scan(c.x.slice(0, 40), {c.q.slice(0, 40), c.k.slice(0, 40), c.g.slice(0, 40)},
                 Sequences({0, 70}), 32);
  EXPECT_TRUE(torch::equal(y.slice(0, 40), alone));
}

TEST(GatedScanErrors, NameTheTensor) {
  const auto c = random_gated({8}, 2, 3, 4);
  EXPECT_THROW_WITH(gated_scan(c.x.flatten(1), {c.q, c.k, c.g}, c.sequences, 16), Error,
                    "gated scan: x must be (n, H, P); got shape [8, 6]");
  EXPECT_THROW_WITH(gated_scan(c.x, {c.q, c.k.narrow(2, 0, 3), c.g}, c.sequences, 16), Error,
                    "k must be Double (n, H, N)");
  EXPECT_THROW_WITH(gated_scan(c.x, {c.q, c.k, c.g.to(torch::kFloat32)}, c.sequences, 16), Error,
                    "got Float of shape [8, 2, 4]");
  EXPECT_THROW_WITH(gated_scan(c.x, {c.q, c.k, c.g}, Sequences({0, 7}), 16), Error, "gated scan");
}

}  // namespace
}  // namespace hydramix
