// SPDX-License-Identifier: Apache-2.0
// The packed scan's kernels against the materialised matrices in float64, on every instruction set.
#include "ops/scan.h"

#include <cmath>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "ops/semiseparable.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;
using torch::Tensor;

struct ScanCase {
  Tensor x, dt_bias, A, delta;
  ScanDirection forward, backward;
  std::vector<int64_t> offsets;
  ScanSettings settings;

  std::vector<std::pair<std::string, Tensor*>> inputs() {
    std::vector<std::pair<std::string, Tensor*>> all{
        {"x", &x}, {"dt_bias", &dt_bias}, {"A", &A}, {"delta", &delta}};
    for (auto* d : {&forward, &backward}) {
      if (!d->dt.defined()) continue;
      const std::string name = d == &forward ? "forward " : "backward ";
      all.insert(all.end(), {{name + "dt", &d->dt}, {name + "b", &d->b}, {name + "c", &d->c}});
    }
    return all;
  }
  Tensor run() const {
    return packed_scan(x, forward, backward, dt_bias, A, delta, offsets, settings);
  }
  ScanCase to(torch::ScalarType type) const {
    ScanCase c = *this;
    for (auto& [name, t] : c.inputs()) *t = t->detach().to(type);
    return c;
  }
};

struct ScanSizes {
  int64_t H = 4, P = 5, G = 2, N = 3, tile = 16, shift = 1;
  bool forward = true, backward = true, per_token = true;
};

ScanCase random_scan(const std::vector<int64_t>& lengths, const ScanSizes& z, uint64_t seed) {
  torch::manual_seed(seed);
  ScanCase c;
  c.offsets = {0};
  for (const int64_t L : lengths) c.offsets.push_back(c.offsets.back() + L);
  const int64_t n = c.offsets.back();
  const auto normal = [](std::vector<int64_t> shape) {
    return torch::randn(shape, torch::kFloat64);
  };
  const auto direction = [&] {
    return ScanDirection{normal({n, z.H}), normal({n, z.G, z.N}), normal({n, z.G, z.N})};
  };
  c.x = normal({n, z.H, z.P});
  if (z.forward) c.forward = direction();
  if (z.backward) c.backward = direction();
  c.dt_bias = normal({z.H});
  c.A = -torch::rand({z.H}, torch::kFloat64) - 0.1;
  c.delta = z.per_token ? normal({n, z.H}) : normal({z.H});
  c.settings.tile = z.tile;
  c.settings.shift = z.shift;
  return c;
}

// The definition: dense matrices, one sequence at a time.
Tensor dense_scan(const ScanCase& c) {
  std::vector<Tensor> each;
  const int64_t H = c.x.size(1);
  for (std::size_t s = 0; s + 1 < c.offsets.size(); ++s) {
    const int64_t begin = c.offsets[s], L = c.offsets[s + 1] - begin;
    if (L == 0) continue;
    const auto part = [&](const Tensor& t) { return t.narrow(0, begin, L).unsqueeze(0); };
    const auto matrix = [&](const ScanDirection& d, bool flipped) {
      const auto dt =
          torch::softplus(part(d.dt) + c.dt_bias).clamp(c.settings.dt_low, c.settings.dt_high);
      ScanParams p{dt, c.A, part(d.b), part(d.c)};
      auto M = semiseparable_matrix(flipped ? p.flipped() : p);
      if (c.settings.shift == 1) M = shift(M, 2);
      return flipped ? M.flip({2, 3}) : M;
    };
    const auto delta =
        c.delta.dim() == 1 ? c.delta.unsqueeze(1).expand({H, L}) : c.delta.narrow(0, begin, L).t();
    auto M = torch::diag_embed(delta).unsqueeze(0);
    if (c.forward.dt.defined()) M = M + matrix(c.forward, false);
    if (c.backward.dt.defined()) M = M + matrix(c.backward, true);
    each.push_back(dense_apply(M, part(c.x)).squeeze(0));
  }
  return torch::cat(each);
}

void expect_equals_dense(ScanCase c, double tolerance, const std::string& what) {
  for (auto& [name, t] : c.inputs()) t->requires_grad_();
  std::vector<Tensor> inputs;
  for (auto& [name, t] : c.inputs()) inputs.push_back(*t);
  const auto fast = c.run(), dense = dense_scan(c);
  expect_close(fast, dense, tolerance, what);
  {
    torch::NoGradGuard no_grad;  // states are not saved
    EXPECT_TRUE(torch::equal(c.run(), fast)) << what;
  }
  const auto dy = torch::randn_like(dense);
  const auto a = torch::autograd::grad({fast}, inputs, {dy});
  const auto b = torch::autograd::grad({dense}, inputs, {dy}, {}, false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(a[i], b[i].defined() ? b[i] : torch::zeros_like(inputs[i]), tolerance,
                 what + ": gradient of " + c.inputs()[i].first);
}

class Scan : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(Scan, EqualsTheMatrixAtAwkwardLengths) {
  for (const int64_t L : {1, 2, 3, 15, 16, 17, 31, 32, 33, 67})
    expect_equals_dense(random_scan({L}, {}, L), 1e-12, "L = " + std::to_string(L));
}

TEST_P(Scan, EqualsTheMatrixForEveryKindOfScan) {
  int seed = 0;
  for (const int64_t shift : {0, 1})
    for (const int directions : {1, 2, 3})
      for (const bool per_token : {false, true}) {
        const ScanSizes z{.shift = shift,
                          .forward = (directions & 1) != 0,
                          .backward = (directions & 2) != 0,
                          .per_token = per_token};
        expect_equals_dense(random_scan({40, 0, 1, 16, 23}, z, seed), 1e-12,
                            "kind " + std::to_string(seed));
        ++seed;
      }
}

TEST_P(Scan, EqualsTheMatrixAtAwkwardSizes) {
  int seed = 100;
  for (const ScanSizes& z :
       std::vector<ScanSizes>{{.H = 1, .P = 1, .G = 1, .N = 1, .tile = 1},
                              {.H = 7, .P = 17, .G = 1, .N = 19, .tile = 13},
                              {.H = 6, .P = 33, .G = 6, .N = 2, .tile = 64},
                              {.H = 9, .P = 16, .G = 3, .N = 33, .tile = 17},
                              {.H = 2, .P = 64, .G = 1, .N = 64, .tile = 1000}}) {
    ++seed;
    expect_equals_dense(random_scan({37, 5}, z, seed), 1e-12,
                        "sizes " + std::to_string(seed - 100));
  }
}

TEST_P(Scan, TakesAnyChunkLength) {
  const auto expected = random_scan({1500, 3}, {.H = 2, .G = 1}, 14).run();
  for (const int64_t tile : {1, 7, 1024, 1 << 20}) {
    auto c = random_scan({1500, 3}, {.H = 2, .G = 1}, 14);
    c.settings.tile = tile;
    expect_close(c.run(), expected, 1e-12, "tile " + std::to_string(tile));
  }
}

TEST_P(Scan, RespectsTheLimitsOfDt) {
  auto c = random_scan({50}, {}, 5);
  c.settings.dt_low = 0.4;
  c.settings.dt_high = 1.1;
  expect_equals_dense(c, 1e-12, "limits");
}

TEST_P(Scan, TakesExtremeStepsAndDecays) {
  // Steps of zero, of 1e30, and both in one sequence; a huge step must not absorb later ones.
  for (const double extreme : {-800.0, 60.0, 1e30}) {
    auto c = random_scan({70}, {}, 6);
    for (auto* d : {&c.forward, &c.backward}) d->dt.index_put_({torch::arange(0, 70, 7)}, extreme);
    ASSERT_TRUE(torch::isfinite(c.run()).all().item<bool>());
    // Errors are relative to the scale of the output, which a step of 1e30 makes huge.
    expect_close(c.run(), dense_scan(c), 1e-12, "dt " + std::to_string(extreme));
    const auto single = c.to(torch::kFloat32).run();
    ASSERT_TRUE(torch::isfinite(single).all().item<bool>());
    expect_close(single, dense_scan(c), 2e-6, "float32, dt " + std::to_string(extreme));
  }
  for (const double rate : {-1e-30, -1e30}) {
    auto c = random_scan({70}, {}, 7);
    c.A.fill_(rate);
    expect_close(c.run(), dense_scan(c), 1e-12, "A " + std::to_string(rate));
  }
}

TEST_P(Scan, Float32IsCloseToFloat64) {
  auto c = random_scan({300, 41}, {.P = 16, .N = 16, .tile = 64}, 8);
  auto single = c.to(torch::kFloat32);
  for (auto* each : {&c, &single})
    for (auto& [name, t] : each->inputs()) t->requires_grad_();
  const auto y = c.run(), y32 = single.run();
  expect_close(y32, y, 2e-6, "output");
  const auto dy = torch::randn_like(y);
  y.backward(dy);
  y32.backward(dy.to(torch::kFloat32));
  for (std::size_t i = 0; i < c.inputs().size(); ++i)
    expect_close(single.inputs()[i].second->grad(), c.inputs()[i].second->grad(), 1e-5,
                 "gradient of " + c.inputs()[i].first);
}

TEST_P(Scan, Bfloat16IsStorageOnly) {
  auto c = random_scan({100}, {}, 9).to(torch::kFloat32);
  auto rounded = c, wide = c;
  for (auto* t : {&rounded.x, &rounded.forward.b, &rounded.forward.c, &rounded.backward.b,
                  &rounded.backward.c})
    *t = t->to(torch::kBFloat16);
  wide.x = rounded.x.to(torch::kFloat32);
  for (auto [to, from] :
       {std::pair{&wide.forward, &rounded.forward}, std::pair{&wide.backward, &rounded.backward}}) {
    to->b = from->b.to(torch::kFloat32);
    to->c = from->c.to(torch::kFloat32);
  }
  for (auto* each : {&rounded, &wide})
    for (auto& [name, t] : each->inputs()) *t = t->detach().clone().requires_grad_();
  const auto y = rounded.run(), y_wide = wide.run();
  EXPECT_TRUE(torch::equal(y, y_wide.to(torch::kBFloat16)));
  const auto dy = torch::randn_like(y);
  y.backward(dy);
  y_wide.backward(dy.to(torch::kFloat32));
  EXPECT_TRUE(torch::equal(rounded.x.grad(), wide.x.grad().to(torch::kBFloat16)));
  EXPECT_TRUE(torch::equal(rounded.forward.c.grad(), wide.forward.c.grad().to(torch::kBFloat16)));
  EXPECT_TRUE(torch::equal(rounded.backward.dt.grad(), wide.backward.dt.grad()));
}

TEST_P(Scan, ReadsStridedAndMisalignedRows) {
  const auto c = random_scan({45}, {}, 10).to(torch::kFloat32);
  auto strided = c;
  // Shifted by one value in a wider buffer, so that no row is aligned to a vector.
  const auto inside = [](const Tensor& t) {
    const auto flat = t.flatten(1);
    return torch::cat({torch::full({t.size(0), 1}, NAN), flat, torch::full({t.size(0), 2}, NAN)}, 1)
        .narrow(1, 1, flat.size(1))
        .view_as(flat)
        .unflatten(1, t.sizes().slice(1).vec());
  };
  for (auto& [name, t] : strided.inputs())
    if (t->dim() > 1) *t = inside(*t);
  ASSERT_FALSE(strided.x.is_contiguous());
  EXPECT_TRUE(torch::equal(strided.run(), c.run()));
  strided.x = c.x.permute({2, 1, 0}).contiguous().permute({2, 1, 0});
  EXPECT_TRUE(torch::equal(strided.run(), c.run()));
}

// The output, and all gradients that have a row per token.
std::vector<Tensor> everything_of_scan(ScanCase c, const Tensor& dy) {
  for (auto& [name, t] : c.inputs()) *t = t->detach().clone().requires_grad_();
  const auto y = c.run();
  y.backward(dy);
  std::vector<Tensor> all{y.detach(), c.x.grad(), c.delta.grad()};
  for (const auto* d : {&c.forward, &c.backward})
    all.insert(all.end(), {d->dt.grad(), d->b.grad(), d->c.grad()});
  return all;
}

TEST_P(Scan, GivesTheSameBitsForAnyThreadsAndAnyBatch) {
  const auto c = random_scan({130, 7, 64}, {.H = 12, .P = 20, .G = 2, .N = 9, .tile = 32}, 11)
                     .to(torch::kFloat32);
  const auto dy = torch::randn_like(c.x);
  const auto one = test::same_for_any_threads([&] { return everything_of_scan(c, dy); });

  // The second sequence alone.
  ScanCase alone = c;
  alone.offsets = {0, 7};
  for (auto& [name, t] : alone.inputs())
    if (t->size(0) == c.x.size(0)) *t = t->narrow(0, 130, 7);
  // Shorter than a chunk, with smaller buffers.
  const auto single = everything_of_scan(alone, dy.narrow(0, 130, 7));
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(torch::equal(single[i], one[i].narrow(0, 130, 7))) << i;
}

TEST_P(Scan, ANanStaysInItsSequence) {
  for (const int which : {0, 1, 2}) {
    auto c = random_scan({33, 20, 40}, {}, 12);
    const auto clean = c.run();
    (which == 0 ? c.x : which == 1 ? c.forward.dt : c.backward.b)[40].fill_(NAN);
    const auto dy = torch::randn_like(c.x);
    for (const auto& t : everything_of_scan(c, dy)) {
      EXPECT_TRUE(torch::isfinite(t.narrow(0, 0, 33)).all().item<bool>());
      EXPECT_TRUE(torch::isfinite(t.narrow(0, 53, 40)).all().item<bool>());
    }
    const auto y = c.run();
    EXPECT_TRUE(torch::equal(y.narrow(0, 0, 33), clean.narrow(0, 0, 33)));
    EXPECT_FALSE(torch::isfinite(y.narrow(0, 33, 20)).all().item<bool>());
  }
}

TEST_P(Scan, AcceptsExpandedGradients) {
  auto c = random_scan({45}, {}, 14);
  const auto ones = everything_of_scan(c, torch::ones_like(c.x));
  c.x.requires_grad_();
  c.run().sum().backward();  // an expanded gradient: all its strides are zero
  EXPECT_TRUE(torch::equal(c.x.grad(), ones[1]));
}

INSTANTIATE_TEST_SUITE_P(All, Scan, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(ScanSizes, EmptySequencesMayOutnumberTheChunks) {
  expect_equals_dense(random_scan({0, 0, 0, 40, 0, 0}, {}, 15), 1e-12, "empty sequences");
}

TEST(ScanSizes, ATileLongerThanTheSequencesCostsNothing) {
  auto c = random_scan({20, 9}, {.tile = 32}, 16);
  const auto y = c.run();
  c.settings.tile = int64_t{1} << 20;  // its square would be a terabyte
  EXPECT_TRUE(torch::equal(c.run(), y));
}

TEST(ScanSizes, NoTokensGiveZeroGradientsOfTheWeights) {
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{}, {0, 0}}) {
    auto c = random_scan(lengths, {}, 17);
    for (auto& [name, t] : c.inputs()) t->requires_grad_();
    const auto y = c.run();
    EXPECT_EQ(y.sizes(), c.x.sizes());
    y.sum().backward();
    for (const auto* t : {&c.A, &c.dt_bias})
      EXPECT_TRUE(torch::equal(t->grad(), torch::zeros_like(*t)));
  }
}

// With a slow decay the state is carried over many chunks. For constant inputs x = b = c = 1 the
// last output has the closed form dt (1 - a^L) / (1 - a).
TEST(ScanSizes, HoldsOverAHundredThousandPlaces) {
  const int64_t L = 100000;
  const double dt = 0.01, A = -0.02, a = std::exp(dt * A);
  const auto f64 = torch::kFloat64;
  const ScanDirection forward{torch::full({L, 1}, std::log(std::expm1(dt)), f64),
                              torch::ones({L, 1, 1}, f64), torch::ones({L, 1, 1}, f64)};
  const auto zero = torch::zeros({1}, f64);
  const auto y = packed_scan(torch::ones({L, 1, 1}, f64), forward, {}, zero,
                             torch::full({1}, A, f64), zero, Sequences({0, L}), {.shift = 0});
  const double end = y[L - 1][0][0].item<double>();
  EXPECT_NEAR(end, dt * (1 - std::pow(a, static_cast<double>(L))) / (1 - a), 1e-9 * end);
}

TEST(GradientsOfTheScan, AreComputedOnlyForInputsThatNeedThem) {
  auto c = random_scan({40, 3}, {}, 18);
  const auto dy = torch::randn_like(c.x);
  auto all = c;
  for (auto& [name, t] : all.inputs()) *t = t->clone().requires_grad_();
  all.run().backward(dy);
  for (std::size_t i = 0; i < c.inputs().size(); ++i) {
    auto one = c;
    const auto [name, leaf] = one.inputs()[i];
    *leaf = leaf->clone().requires_grad_();
    one.run().backward(dy);
    EXPECT_TRUE(torch::equal(leaf->grad(), all.inputs()[i].second->grad())) << name;
  }
}

TEST(GradientsOfTheScan, OneTensorMayBeSeveralInputs) {
  auto c = random_scan({40, 3}, {}, 19);
  c.forward.b.requires_grad_();
  c.forward.c = c.backward.b = c.backward.c = c.forward.b;
  const auto dy = torch::randn_like(c.x);
  expect_close(torch::autograd::grad({c.run()}, {c.forward.b}, {dy})[0],
               torch::autograd::grad({dense_scan(c)}, {c.forward.b}, {dy})[0], 1e-12, "b = c");
}

TEST(GradientsOfTheScan, SecondOnesAndChangedInputsAreRefused) {
  auto c = random_scan({9}, {}, 20);
  c.x.requires_grad_();
  EXPECT_THROW_WITH(torch::autograd::grad({c.run().sum()}, {c.x}, {}, {}, /*create_graph=*/true),
                    Error, "scan: has no second derivative");
  const auto y = c.run();
  c.forward.b.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error) << "b is needed as it was";
}

TEST(ScanErrors, BadShapesAndOffsetsAreNamed) {
  const auto c = random_scan({8}, {}, 13);
  auto bad = c;
  bad.offsets = {0, 9};
  EXPECT_THROW_WITH(bad.run(), Error, "offsets must rise from 0 to the 8 tokens");
  bad.offsets = {0, 5, 3, 8};
  EXPECT_THROW_WITH(bad.run(), Error, "offsets must rise");
  bad.offsets = {};
  EXPECT_THROW_WITH(bad.run(), Error, "offsets must rise");
  bad = c;
  bad.forward.b = bad.forward.b.narrow(0, 0, 7);
  EXPECT_THROW_WITH(bad.run(), Error, "b must be");
  bad = c;
  bad.forward.dt = bad.forward.dt.to(torch::kFloat32);
  EXPECT_THROW_WITH(bad.run(), Error, "dt must be");
  bad = c;
  bad.delta = bad.delta.narrow(1, 0, 3);
  EXPECT_THROW_WITH(bad.run(), Error, "delta must be");
  bad = c;
  bad.forward = bad.backward = {};
  EXPECT_THROW_WITH(bad.run(), Error, "neither direction");
  bad = c;
  for (auto* d : {&bad.forward, &bad.backward})
    d->b = d->c = torch::zeros({8, 3, 3}, torch::kFloat64);
  EXPECT_THROW_WITH(bad.run(), Error, "groups that divide the heads");
}

}  // namespace
}  // namespace hydramix
