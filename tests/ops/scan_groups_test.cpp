// SPDX-License-Identifier: Apache-2.0
// The packed scan over all ways to share keys and queries, in one direction and in both, on every
// instruction set: values, precision, bits, and numbers that are not finite.
#include <cmath>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "scan_case.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::everything_of_scan;
using test::expect_close;
using test::expect_equals_dense;
using test::inside_wider_rows;
using test::random_scan;
using test::ScanCase;
using test::ScanSizes;
using torch::Tensor;

// Heads and groups. A task that has all heads of its group prepares it itself: {4, 2} and {3, 3}.
// Otherwise they are prepared beforehand: with one group, and with several tasks per group, {14,
// 2}.
struct Grouping {
  int64_t H, G;
};
const std::vector<Grouping> kGroupings{{4, 2}, {3, 3}, {5, 1}, {14, 2}};

constexpr int kDirections[] = {1, 2, 3};  // forward, backward, both

ScanSizes with_directions(ScanSizes z, int directions) {
  z.forward = (directions & 1) != 0;
  z.backward = (directions & 2) != 0;
  return z;
}

std::string kind_of(const Grouping& of, int directions) {
  return concat("H ", of.H, ", G ", of.G, ", directions ", directions);
}

class ScanGroups : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(ScanGroups, EqualTheMatrixForEveryKindOfScan) {
  uint64_t seed = 0;
  for (const auto& of : kGroupings)
    for (const int64_t shift : {0, 1})
      for (const int directions : kDirections)
        for (const bool per_token : {false, true}) {
          const auto z = with_directions(
              {.H = of.H, .G = of.G, .shift = shift, .per_token = per_token}, directions);
          expect_equals_dense(random_scan({40, 0, 1, 16, 23}, z, seed++), 1e-12,
                              concat(kind_of(of, directions), ", shift ", shift, ", diagonal ",
                                     per_token ? "per token" : "per head"));
        }
}

// Chunks of more than 16 rows, the last one short; more than one vector of states and channels.
TEST_P(ScanGroups, EqualTheMatrixInOneDirectionAtAwkwardSizes) {
  uint64_t seed = 200;
  for (const int directions : {1, 2})
    for (const int64_t shift : {0, 1})
      for (ScanSizes z : std::vector<ScanSizes>{{.H = 1, .P = 1, .G = 1, .N = 1, .tile = 1},
                                                {.H = 7, .P = 17, .G = 1, .N = 19, .tile = 50},
                                                {.H = 3, .P = 33, .G = 3, .N = 18, .tile = 64},
                                                {.H = 8, .P = 16, .G = 2, .N = 33, .tile = 17},
                                                {.H = 2, .P = 65, .G = 2, .N = 5, .tile = 1000}}) {
        z.shift = shift;
        ++seed;
        expect_equals_dense(random_scan({115, 5, 33}, with_directions(z, directions), seed), 1e-12,
                            concat("size ", seed - 200));
      }
}

TEST_P(ScanGroups, Float32IsCloseToFloat64) {
  for (const int64_t G : {1, 2})
    for (const int64_t shift : {0, 1})
      for (const int directions : kDirections) {
        SCOPED_TRACE(concat(kind_of({4, G}, directions), ", shift ", shift));
        const ScanSizes z{.P = 16, .G = G, .N = 16, .tile = 64, .shift = shift};
        auto c = random_scan({300, 41}, with_directions(z, directions), 8);
        auto single = c.to(torch::kFloat32);
        for (auto* each : {&c, &single})
          for (auto& [name, t] : each->inputs()) t->requires_grad_();
        const auto y = c.run(), y32 = single.run();
        expect_close(y32, y, 2e-6, "output");
        const auto dy = torch::randn_like(y);
        y.backward(dy);
        y32.backward(dy.to(torch::kFloat32));
        // Terms of the gradient of A cancel; up to 2.5e-5 was seen, on the scalar target.
        for (std::size_t i = 0; i < c.inputs().size(); ++i)
          expect_close(single.inputs()[i].second->grad(), c.inputs()[i].second->grad(), 5e-5,
                       "gradient of " + c.inputs()[i].first);
      }
}

TEST_P(ScanGroups, Bfloat16IsStorageOnly) {
  const auto stored = [](ScanCase& c) {
    std::vector<Tensor*> all{&c.x};
    for (auto* d : {&c.forward, &c.backward})
      if (d->dt.defined()) all.insert(all.end(), {&d->b, &d->c});
    return all;
  };
  for (const auto& of : kGroupings)
    for (const int directions : kDirections) {
      SCOPED_TRACE(kind_of(of, directions));
      const auto z = with_directions({.H = of.H, .G = of.G, .tile = 32}, directions);
      auto rounded = random_scan({100}, z, 9).to(torch::kFloat32);
      for (auto* t : stored(rounded)) *t = t->to(torch::kBFloat16);
      auto wide = rounded;
      for (auto* t : stored(wide)) *t = t->to(torch::kFloat32);
      for (auto* each : {&rounded, &wide})
        for (auto& [name, t] : each->inputs()) *t = t->detach().clone().requires_grad_();
      const auto y = rounded.run(), y_wide = wide.run();
      EXPECT_TRUE(torch::equal(y, y_wide.to(torch::kBFloat16)));
      const auto dy = torch::randn_like(y);
      y.backward(dy);
      y_wide.backward(dy.to(torch::kFloat32));
      for (std::size_t i = 0; i < rounded.inputs().size(); ++i) {
        const auto [name, t] = rounded.inputs()[i];
        const auto expected = wide.inputs()[i].second->grad().to(t->scalar_type());
        EXPECT_TRUE(torch::equal(t->grad(), expected)) << name;
      }
    }
}

TEST_P(ScanGroups, GiveTheSameBitsForAnyThreadsAndAnyBatch) {
  for (const auto& of : std::vector<Grouping>{{12, 2}, {8, 1}, {14, 2}})
    for (const int directions : kDirections) {
      SCOPED_TRACE(kind_of(of, directions));
      const ScanSizes z{.H = of.H, .P = 20, .G = of.G, .N = 9, .tile = 32};
      const auto c =
          random_scan({130, 7, 64}, with_directions(z, directions), 11).to(torch::kFloat32);
      const auto dy = torch::randn_like(c.x);
      const auto one = test::same_for_any_threads([&] { return everything_of_scan(c, dy); });

      // The second sequence alone: shorter than a chunk, with smaller buffers.
      ScanCase alone = c;
      alone.offsets = {0, 7};
      for (auto& [name, t] : alone.inputs())
        if (t->size(0) == c.x.size(0)) *t = t->narrow(0, 130, 7);
      const auto single = everything_of_scan(alone, dy.narrow(0, 130, 7));
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_TRUE(torch::equal(single[i], one[i].narrow(0, 130, 7))) << i;
    }
}

TEST_P(ScanGroups, ABadNumberChangesNoBitOfOtherSequences) {
  for (const auto& of : kGroupings)
    for (const int directions : kDirections)
      for (const float bad : {NAN, INFINITY})
        for (const int which : {0, 1, 2, 3, 4}) {
          SCOPED_TRACE(concat(kind_of(of, directions), ", ", bad, " in input ", which));
          const auto z = with_directions({.H = of.H, .G = of.G}, directions);
          auto c = random_scan({33, 20, 40}, z, 12).to(torch::kFloat32);
          auto dy = torch::randn_like(c.x);
          const auto clean = everything_of_scan(c, dy);
          auto& d = directions == 2 ? c.backward : c.forward;
          Tensor* const inputs[] = {&c.x, &d.dt, &d.b, &d.c, &dy};
          (*inputs[which])[40].fill_(bad);
          const auto got = everything_of_scan(c, dy);
          bool seen = false;
          for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(torch::equal(got[i].narrow(0, 0, 33), clean[i].narrow(0, 0, 33))) << i;
            EXPECT_TRUE(torch::equal(got[i].narrow(0, 53, 40), clean[i].narrow(0, 53, 40))) << i;
            seen = seen || !torch::isfinite(got[i]).all().item<bool>();
          }
          EXPECT_TRUE(seen) << "the bad number was not used";
        }
}

// The backward pass reads b and c again.
TEST_P(ScanGroups, ReadStridedRowsInTheBackwardPass) {
  for (const auto& of : kGroupings)
    for (const int directions : kDirections) {
      SCOPED_TRACE(kind_of(of, directions));
      const auto z = with_directions({.H = of.H, .G = of.G}, directions);
      auto c = random_scan({45, 20}, z, 21).to(torch::kFloat32);
      auto strided = c;
      for (auto& [name, t] : strided.inputs())
        *t = t->dim() > 1 ? inside_wider_rows(*t) : t->clone();
      for (auto* each : {&c, &strided})
        for (auto& [name, t] : each->inputs()) t->requires_grad_();
      const auto dy = torch::randn_like(c.x).detach();
      c.run().backward(dy);
      strided.run().backward(inside_wider_rows(dy));
      for (std::size_t i = 0; i < c.inputs().size(); ++i)
        EXPECT_TRUE(torch::equal(strided.inputs()[i].second->grad(), c.inputs()[i].second->grad()))
            << c.inputs()[i].first;
    }
}

INSTANTIATE_TEST_SUITE_P(All, ScanGroups, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

}  // namespace
}  // namespace hydramix
