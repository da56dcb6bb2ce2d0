// SPDX-License-Identifier: Apache-2.0
// Non-uniform FFTs against the direct sum of cosines, whose angles are reduced before they are
// multiplied by j, so that the sum itself is exact to rounding.
#include "ops/nonuniform_fft.h"

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "ops/gathered_cosines.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

constexpr auto kDouble = torch::kFloat64;

struct CosineCase {
  torch::Tensor angle;  // (S or 1, H, L, d)
  torch::Tensor x, r;   // (S, L, H, P)
  double step = 1;
};

CosineCase random_cosines(int64_t L, int64_t d, int64_t P, torch::ScalarType type) {
  torch::manual_seed(static_cast<uint64_t>(1000 * L + 10 * d + P));
  const auto options = torch::TensorOptions(kDouble);
  return {torch::rand({2, 3, L, d}, options).to(type), torch::randn({2, L, 3, P}, options).to(type),
          torch::randn({2, L, 3, P}, options).to(type)};
}

// C in float64 for the frequencies as given. step angle is exact to 1e-16 of itself in float64, and
// so is the fraction that is left of it.
torch::Tensor exact_matrix(const CosineCase& c) {
  const auto f = c.step * c.angle.to(kDouble);
  return cosine_matrix(f - f.floor());
}

torch::Tensor exact_product(const torch::Tensor& C, const torch::Tensor& x, bool transposed) {
  return dense_apply(transposed ? C.transpose(2, 3) : C, x.to(kDouble));
}

torch::Tensor product(const CosineCase& c, bool transposed) {
  return transposed ? cosine_product_transposed(c.angle, c.x, c.step)
                    : cosine_product(c.angle, c.x, c.step);
}

// max |a - b| relative to d times the largest sum_j |x_j| of a channel, which bounds the effect of
// one rounding of every term.
void expect_near(const torch::Tensor& a, const torch::Tensor& b, const CosineCase& c,
                 double tolerance, const std::string& what) {
  const double sum =
      c.x.to(kDouble).abs().sum(1).max().item<double>() * static_cast<double>(c.angle.size(3));
  ASSERT_TRUE(torch::isfinite(a).all().item<bool>()) << what;
  EXPECT_LE((a.to(kDouble) - b).abs().max().item<double>(), tolerance * sum) << what;
}

// A tenth of the error that the header promises: the window is chosen with that margin.
double tolerance(torch::ScalarType type) { return type == kDouble ? 1e-13 : 3e-7; }

TEST(NonuniformFft, EqualsTheDirectSumAtAnyLength) {
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const int64_t L : {1, 2, 3, 17, 127, 128, 1000})
      for (const bool transposed : {false, true}) {
        const auto c = random_cosines(L, 3, 5, type);
        expect_near(product(c, transposed), exact_product(exact_matrix(c), c.x, transposed), c,
                    tolerance(type),
                    concat("L ", L, ", transposed ", transposed, ", ", c.x.dtype()));
      }
}

TEST(NonuniformFft, TakesAnyNumberOfChannelsAndFrequencies) {
  // Vectors of 1 to 16 lanes, blocks of 32 and 64 channels, batches of 16 frequencies.
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const int64_t P : {1, 2, 15, 16, 17, 63, 65, 130})
      for (const int64_t d : {1, 16, 17}) {
        const auto c = random_cosines(19, d, P, type);
        for (const bool transposed : {false, true})
          expect_near(product(c, transposed), exact_product(exact_matrix(c), c.x, transposed), c,
                      tolerance(type), concat("P ", P, ", d ", d, ", transposed ", transposed));
      }
}

TEST(NonuniformFft, TakesAnyRealFrequency) {
  const std::vector<double> special{0,     0.5,     1,       -0.5,        -1,    0.25,
                                    -0.25, 1e-300,  -1e-300, 1e-9,        -1e-9, 1e10,
                                    -1e10, 123.456, -77.25,  0.5 - 1e-16, 3e15};
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const double step : {1.0, 1e-3}) {
      const auto L = static_cast<int64_t>(special.size());
      auto c = random_cosines(L, 1, 3, type);
      c.step = step;
      c.angle = torch::tensor(special, kDouble).view({1, 1, L, 1}).expand({1, 3, L, 1}).to(type);
      for (const bool transposed : {false, true})
        expect_near(product(c, transposed), exact_product(exact_matrix(c), c.x, transposed), c,
                    tolerance(type), concat("step ", step, ", transposed ", transposed));
    }
}

TEST(NonuniformFft, IsCloserToTheTruthThanTheMatrixInFloat32) {
  const int64_t L = 2000;
  auto c = random_cosines(L, 1, 2, torch::kFloat32);
  c.angle = 900 * c.angle;
  c.step = 1e-3;
  const auto truth = exact_product(exact_matrix(c), c.x, false);
  const double ours = test::relative_error(product(c, false), truth);
  const double dense =
      test::relative_error(dense_apply(cosine_matrix(c.angle, c.step), c.x), truth);
  EXPECT_LE(ours, 1e-6);
  EXPECT_LE(10 * ours, dense);
}

TEST(NonuniformFft, GradientsEqualThoseOfTheMatrix) {
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const int64_t L : {1, 2, 17, 128, 300})
      for (const bool shared : {false, true})
        for (const bool transposed : {false, true}) {
          auto c = random_cosines(L, 3, 5, type);
          if (shared) c.angle = c.angle.narrow(0, 0, 1).clone();
          c.step = 0.7;
          c.angle.requires_grad_();
          c.x.requires_grad_();
          const auto truth = exact_product(exact_matrix(c), c.x, transposed);
          const auto a = torch::autograd::grad({product(c, transposed)}, {c.angle, c.x}, {c.r});
          const auto b = torch::autograd::grad({truth}, {c.angle, c.x}, {c.r.to(kDouble)});
          const auto what = concat("L ", L, ", transposed ", transposed, ", shared ", shared);
          // A gradient by an angle sums terms up to 2 pi L |x| |r|, most of which cancel.
          const double slope = 2 * M_PI * static_cast<double>(L) * 0.7 *
                               c.x.abs().sum(1).max().item<double>() *
                               c.r.abs().max().item<double>();
          EXPECT_LE((a[0] - b[0]).abs().max().item<double>(), 5 * tolerance(type) * slope) << what;
          expect_close(a[1], b[1], type == kDouble ? 1e-12 : 2e-6, what);
        }
}

TEST(NonuniformFft, ComputesOnlyNeededGradients) {
  for (const bool transposed : {false, true}) {
    auto c = random_cosines(40, 2, 3, kDouble);
    c.angle.requires_grad_();
    c.x.requires_grad_();
    const auto both = torch::autograd::grad({product(c, transposed)}, {c.angle, c.x}, {c.r});
    auto fixed_x = c, fixed_angle = c;
    fixed_x.x = c.x.detach();
    fixed_angle.angle = c.angle.detach();
    const auto dangle = torch::autograd::grad({product(fixed_x, transposed)}, {c.angle}, {c.r});
    const auto dx = torch::autograd::grad({product(fixed_angle, transposed)}, {c.x}, {c.r});
    EXPECT_TRUE(torch::equal(dangle[0], both[0]));
    expect_close(dx[0], both[1], 1e-14, "x");
  }
}

TEST(NonuniformFft, RefusesToBeDifferentiatedTwice) {
  auto c = random_cosines(40, 2, 3, kDouble);
  c.x.requires_grad_();
  const auto twice = [&] {
    return torch::autograd::grad({product(c, false)}, {c.x}, {c.r}, true, true);
  };
  EXPECT_THROW_WITH(twice(), Error, "differentiable once");
}

TEST(NonuniformFft, ChecksShapesAndTypes) {
  const auto c = random_cosines(8, 2, 3, kDouble);
  EXPECT_THROW_WITH(cosine_product(c.angle.narrow(2, 0, 7), c.x), Error, "got angle [2, 3, 7, 2]");
  EXPECT_THROW_WITH(cosine_product(c.angle.to(torch::kFloat32), c.x), Error, "both float64");
}

TEST(NonuniformFft, NonContiguousInputsGiveTheSame) {
  const auto c = random_cosines(50, 4, 6, kDouble);
  auto other = c;
  other.angle = c.angle.transpose(2, 3).contiguous().transpose(2, 3);
  other.x = c.x.permute({3, 2, 1, 0}).contiguous().permute({3, 2, 1, 0});
  for (const bool transposed : {false, true})
    EXPECT_TRUE(torch::equal(product(other, transposed), product(c, transposed)));
}

TEST(NonuniformFft, ANonFiniteFrequencyAffectsOnlyItsOwnHead) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    const auto c = random_cosines(40, 2, 3, torch::kFloat32);
    auto spoiled = c;
    spoiled.angle = c.angle.clone();
    spoiled.angle[1][2][7][1] = bad;
    for (const bool transposed : {false, true}) {
      const auto y = product(spoiled, transposed), clean = product(c, transposed);
      EXPECT_TRUE(torch::equal(y[0], clean[0]));
      EXPECT_TRUE(torch::equal(y[1].narrow(1, 0, 2), clean[1].narrow(1, 0, 2)));
      EXPECT_TRUE(torch::isnan(y[1][7][2]).all().item<bool>());
    }
  }
}

// ---- by LibTorch's operations: the way of other devices, here on the CPU ----

// max |a - b| relative to the largest of b, in float64.
void expect_gathered(const torch::Tensor& a, const torch::Tensor& b, torch::ScalarType type,
                     const std::string& what) {
  expect_close(a, b, type == kDouble ? 1e-12 : 3e-6, what);
}

TEST(GatheredCosines, ProductsEqualTheDirectSum) {
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const int64_t L : {1, 2, 17, 128, 300})
      for (const bool shared : {false, true}) {
        auto c = random_cosines(L, 3, 5, type);
        c.angle = 9 * (c.angle - 0.5);
        if (shared) c.angle = c.angle.narrow(0, 0, 1).clone();
        c.step = 0.7;
        const auto C = exact_matrix(c);
        const GatheredCosines gathered(c.angle, c.x, c.step);
        const auto what = concat("L ", L, ", shared ", shared, ", ", c.x.dtype());
        expect_near(gathered.product(c.x), exact_product(C, c.x, false), c, tolerance(type), what);
        expect_near(gathered.transposed(c.x), exact_product(C, c.x, true), c, tolerance(type),
                    what + ", transposed");
      }
}

TEST(GatheredCosines, SlopesEqualThoseOfTheMatrix) {
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const bool shared : {false, true}) {
      auto c = random_cosines(200, 3, 5, type);
      if (shared) c.angle = c.angle.narrow(0, 0, 1).clone();
      c.step = 0.7;
      c.angle.requires_grad_();
      const auto truth = exact_product(exact_matrix(c), c.x, false);
      const auto dangle = torch::autograd::grad({truth}, {c.angle}, {c.r.to(kDouble)})[0];
      const GatheredCosines gathered(c.angle.detach(), c.x, c.step);
      torch::Tensor y;
      const auto what = concat("shared ", shared, ", ", c.x.dtype());
      const auto slope = gathered.slope(c.x, c.r, &y);
      ASSERT_EQ(slope.sizes(), c.angle.sizes());
      expect_gathered(slope, dangle, type, what);
      expect_near(y, truth.detach(), c, tolerance(type), what);
      EXPECT_TRUE(torch::equal(gathered.slope(c.x, c.r, nullptr), slope)) << what;
    }
}

TEST(GatheredCosines, EqualTheKernels) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    auto c = random_cosines(1000, 4, 3, type);
    c.angle = 1000 * (c.angle - 0.5);
    c.step = 1e-3;
    const GatheredCosines gathered(c.angle, c.x, c.step);
    expect_gathered(gathered.product(c.x), product(c, false), type, "product");
    expect_gathered(gathered.transposed(c.x), product(c, true), type, "transposed");
  }
}

TEST(GatheredCosines, ANonFiniteFrequencyAffectsOnlyItsOwnHead) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    const auto c = random_cosines(40, 2, 3, torch::kFloat32);
    auto angle = c.angle.clone();
    angle[1][2][7][1] = bad;
    const GatheredCosines spoiled(angle, c.x, 1), clean(c.angle, c.x, 1);
    const auto y = spoiled.product(c.x), z = spoiled.transposed(c.x);
    EXPECT_TRUE(torch::equal(y[0], clean.product(c.x)[0]));
    EXPECT_TRUE(torch::equal(z[0], clean.transposed(c.x)[0]));
    EXPECT_TRUE(torch::equal(z[1].narrow(1, 0, 2), clean.transposed(c.x)[1].narrow(1, 0, 2)));
    EXPECT_TRUE(torch::isnan(y[1][7][2]).all().item<bool>());
    EXPECT_TRUE(torch::isnan(z[1].select(1, 2)).all().item<bool>());
  }
}

// Values and gradients of both products, one after the other.
std::vector<torch::Tensor> everything_of_cosine(CosineCase c) {
  c.angle.requires_grad_();
  c.x.requires_grad_();
  std::vector<torch::Tensor> all;
  for (const bool transposed : {false, true}) {
    const auto y = product(c, transposed);
    all.push_back(y.detach());
    for (const auto& g : torch::autograd::grad({y}, {c.angle, c.x}, {c.r})) all.push_back(g);
  }
  return all;
}

TEST(NonuniformFft, ThreadsDoNotChangeABit) {
  const int threads = torch::get_num_threads();
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const auto c = random_cosines(3000, 3, 40, type);  // two blocks of channels or more
    torch::set_num_threads(1);
    const auto one = everything_of_cosine(c);
    torch::set_num_threads(2);
    const auto two = everything_of_cosine(c);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(torch::equal(one[i], two[i])) << "result " << i;
  }
  torch::set_num_threads(threads);
}

TEST(NonuniformFft, EveryInstructionSetAgrees) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    auto c = random_cosines(130, 17, 21, type);
    c.angle = 1000 * (c.angle - 0.5);
    const auto best = everything_of_cosine(c);
    for (const auto& name : kernels::instruction_sets()) {
      kernels::use_instruction_set(name);
      const auto same = everything_of_cosine(c);
      kernels::use_instruction_set("");
      for (std::size_t i = 0; i < best.size(); ++i)
        expect_close(same[i], best[i], type == kDouble ? 1e-12 : 3e-6,
                     name + ", result " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace hydramix
