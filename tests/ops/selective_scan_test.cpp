// SPDX-License-Identifier: Apache-2.0
#include "ops/selective_scan.h"

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "ops/semiseparable.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;

struct SelectiveCase {
  torch::Tensor x, dt, A, b, c, D, dy;
  Sequences sequences{{0}};

  SelectiveScanParams params() const { return {dt, A, b, c, D}; }
  torch::Tensor run(int64_t tile) const { return selective_scan(x, params(), sequences, tile); }
  std::vector<torch::Tensor> inputs() const { return {x, dt, A, b, c, D}; }
  void require_gradients() {
    for (auto t : inputs()) t.requires_grad_();
  }
  std::vector<torch::Tensor> gradients(const torch::Tensor& y) const {
    return torch::autograd::grad({y}, inputs(), {dy});
  }
  // The recurrence, position by position.
  torch::Tensor reference() const {
    std::vector<torch::Tensor> y{x.narrow(0, 0, 0)};
    const auto& offsets = sequences.offsets();
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      auto h = torch::zeros_like(A);  // (C, N)
      for (int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
        h = torch::exp(dt[t].unsqueeze(1) * A) * h + (dt[t] * x[t]).unsqueeze(1) * b[t];
        y.push_back((h.mv(c[t]) + D * x[t]).unsqueeze(0));
      }
    }
    return torch::cat(y);
  }
};

SelectiveCase random_selective(const std::vector<int64_t>& lengths, int64_t C, int64_t N,
                               torch::ScalarType type = torch::kFloat64) {
  torch::manual_seed(47);
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  const int64_t n = offsets.back();
  const auto random = [](torch::IntArrayRef shape) { return torch::randn(shape, torch::kFloat64); };
  SelectiveCase c;
  c.x = random({n, C}), c.dy = random({n, C}), c.b = random({n, N}), c.c = random({n, N});
  c.dt = torch::softplus(2 * random({n, C}) - 2);
  c.A = -torch::exp(random({C, N})), c.D = random({C});
  c.sequences = Sequences(offsets);
  for (auto* t : {&c.x, &c.dy, &c.b, &c.c, &c.dt, &c.A, &c.D}) *t = t->to(type);
  return c;
}

void expect_equals_selective_recurrence(SelectiveCase c, int64_t tile, const std::string& what) {
  c.require_gradients();
  const auto fast = c.run(tile), slow = c.reference();
  expect_close(fast, slow, 1e-13, what);
  const auto a = c.gradients(fast), b = c.gradients(slow);
  for (std::size_t i = 0; i < a.size(); ++i)
    expect_close(a[i], b[i], 1e-12, what + ", gradient " + std::to_string(i));
}

class SelectiveScan : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(SelectiveScan, EqualsTheRecurrence) {
  // Channels below, at and above a vector and a task; chunks cut short and exact.
  for (const int64_t C : {1, 7, 16, 64, 67})
    for (const int64_t tile : {1, 16, 64})
      expect_equals_selective_recurrence(random_selective({37}, C, 3), tile,
                                         concat("C ", C, ", tile ", tile));
  // States below, at and above a block.
  for (const int64_t N : {1, 2, 5})
    expect_equals_selective_recurrence(random_selective({33}, 5, N), 64, concat(N, " states"));
}

TEST_P(SelectiveScan, SequencesAreSeparate) {
  expect_equals_selective_recurrence(random_selective({9, 0, 40, 1, 0, 33}, 9, 4), 16, "packed");
}

TEST_P(SelectiveScan, Float32IsCloseToFloat64) {
  auto wide = random_selective({300}, 40, 16),
       narrow = random_selective({300}, 40, 16, torch::kFloat32);
  wide.require_gradients(), narrow.require_gradients();
  const auto exact = wide.run(64), single = narrow.run(64);
  EXPECT_LT(test::relative_error(single, exact), 2e-6);
  const auto a = narrow.gradients(single), b = wide.gradients(exact);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(test::relative_error(a[i], b[i]), 5e-6) << i;
}

// exp(dt A) is below the smallest float32 at every other token, where the state is forgotten.
TEST_P(SelectiveScan, LongStepsForgetTheState) {
  const auto lengthen = [](SelectiveCase& c) {
    c.dt.index({torch::indexing::Slice(0, torch::indexing::None, 2)}).add_(2e4);
    c.A.clamp_max_(-0.1);
  };
  auto wide = random_selective({40}, 20, 4),
       narrow = random_selective({40}, 20, 4, torch::kFloat32);
  lengthen(wide), lengthen(narrow);
  wide.require_gradients(), narrow.require_gradients();
  const auto exact = wide.reference(), single = narrow.run(64);
  EXPECT_LT(test::relative_error(single, exact), 2e-6);
  const auto a = narrow.gradients(single), b = wide.gradients(exact);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(test::relative_error(a[i], b[i]), 5e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(All, SelectiveScan, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(SelectiveScanParts, DoublingEqualsTheRecurrenceWithGradients) {
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{1}, {37}, {5, 0, 30, 1, 9}}) {
    auto c = random_selective(lengths, 3, 4);
    c.require_gradients();
    const auto fast = selective_scan_by_doubling(c.x, c.params(), c.sequences, /*chunk=*/16);
    const auto slow = c.reference();
    expect_close(fast, slow, 1e-13, "by doubling");
    const auto a = c.gradients(fast), b = c.gradients(slow);
    for (std::size_t i = 0; i < a.size(); ++i) expect_close(a[i], b[i], 1e-12, "gradient");
    const torch::NoGradGuard no_grad;  // no states are kept then
    EXPECT_TRUE(
        torch::equal(selective_scan_by_doubling(c.x, c.params(), c.sequences, /*chunk=*/16), fast));
  }
}

// A equal over the states, and A, dt and D over the channels of a head: the scan of Mamba-2.
TEST(SelectiveScanParts, EqualDecaysAreTheScanOfMamba2) {
  const int64_t H = 3, P = 4, N = 5, L = 41;
  torch::manual_seed(49);
  const auto options = torch::TensorOptions(torch::kFloat64);
  const auto x = torch::randn({1, L, H, P}, options), b = torch::randn({1, L, 1, N}, options),
             c = torch::randn({1, L, 1, N}, options), dt = torch::rand({1, L, H}, options);
  const auto A = -torch::rand({H}, options), D = torch::randn({H}, options);
  const auto of_channels = [&](const torch::Tensor& t, int64_t dim) {
    return t.repeat_interleave(P, dim);
  };
  const SelectiveScanParams params{of_channels(dt[0], 1),
                                   of_channels(A.unsqueeze(1).expand({H, N}), 0), b[0].squeeze(1),
                                   c[0].squeeze(1), of_channels(D, 0)};
  const auto y = selective_scan(x[0].flatten(1), params, Sequences({0, L}), 16);
  const auto ssd = semiseparable_scan_ref(x, {dt, A, b, c}) + D.unsqueeze(1) * x;
  expect_close(y.view({L, H, P}), ssd[0], 1e-12, "SSD");
}

TEST(SelectiveScanParts, BitsDependNeitherOnOtherSequencesNorOnThreads) {
  auto c = random_selective({40, 70}, 100, 5, torch::kFloat32);
  c.require_gradients();
  const auto all = test::same_for_any_threads([&] {
    const auto y = c.run(32);
    auto tensors = c.gradients(y);
    tensors.insert(tensors.begin(), y);
    return tensors;
  });
  const auto tail = [](const torch::Tensor& t) { return t.slice(0, 40); };
  const auto alone = selective_scan(tail(c.x), {tail(c.dt), c.A, tail(c.b), tail(c.c), c.D},
                                    Sequences({0, 70}), 32);
  EXPECT_TRUE(torch::equal(tail(all[0]), alone));
}

TEST(SelectiveScanParts, NoTokensGiveZeroGradients) {
  auto c = random_selective({}, 3, 2);
  c.require_gradients();
  const auto y = c.run(16);
  EXPECT_EQ(y.size(0), 0);
  for (const auto& gradient : c.gradients(y))
    EXPECT_EQ(gradient.count_nonzero().item<int64_t>(), 0);
}

TEST(SelectiveScanParts, ErrorsNameTheTensor) {
  const auto c = random_selective({8}, 3, 4);
  EXPECT_THROW_WITH(selective_scan(c.x[0], c.params(), c.sequences, 16), Error,
                    "selective scan: x must be (n, C); got shape [3]");
  EXPECT_THROW_WITH(
      selective_scan(c.x, {c.dt, c.A, c.b.narrow(1, 0, 2), c.c, c.D}, c.sequences, 16), Error,
      "b must be Double of shape [8, 4] on cpu; got Double of shape [8, 2]");
  EXPECT_THROW_WITH(selective_scan(c.x, c.params(), Sequences({0, 7}), 16), Error,
                    "selective scan");
}

}  // namespace
}  // namespace hydramix
