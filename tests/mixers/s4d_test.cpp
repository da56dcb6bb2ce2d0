// SPDX-License-Identifier: Apache-2.0
// S4D against the recurrence of its paper, step by step in complex<double>, for every spectrum and
// discretisation.
#include <cmath>
#include <complex>

#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::random_case;

using Complex = std::complex<double>;

// x_t = abar x_{t-1} + bbar u_t,  y_t = Re sum c x_t  (twice for conjugate pairs).
struct DiagonalRecurrence {
  std::vector<Complex> abar, bbar, c;

  std::vector<double> run(const std::vector<double>& u) const {
    std::vector<Complex> x(abar.size());
    std::vector<double> y;
    for (const double input : u) {
      Complex sum = 0;
      for (std::size_t n = 0; n < x.size(); ++n) {
        x[n] = abar[n] * x[n] + bbar[n] * input;
        sum += c[n] * x[n];
      }
      y.push_back(sum.real());
    }
    return y;
  }
};

// The recurrence of head h in one direction, from the weights.
DiagonalRecurrence recurrence_of(const Mixer& mixer, int64_t h, int64_t direction,
                                 const std::string& discretisation) {
  const auto weights = mixer.named_parameters();
  const double dt = std::exp(weights["kernel.log_dt"][h].item<double>());
  const auto decay = weights["kernel.log_A_real"][h];
  const auto* frequency = weights.find("kernel.A_imag");
  const auto C = weights["kernel.C"][direction][h];
  DiagonalRecurrence r;
  for (int64_t n = 0; n < decay.size(0); ++n) {
    const Complex A{-std::exp(decay[n].item<double>()),
                    frequency != nullptr ? (*frequency)[h][n].item<double>() : 0.0};
    if (discretisation == "bilinear") {
      r.abar.push_back((1.0 + dt * A / 2.0) / (1.0 - dt * A / 2.0));
      r.bbar.push_back(dt / (1.0 - dt * A / 2.0));
    } else {
      r.abar.push_back(std::exp(dt * A));
      r.bbar.push_back(discretisation == "zoh" ? (std::exp(dt * A) - 1.0) / A : Complex(dt));
    }
    r.c.push_back(frequency != nullptr
                      ? 2.0 * Complex(C[n][0].item<double>(), C[n][1].item<double>())
                      : Complex(C[n].item<double>()));
  }
  return r;
}

// y_i = k applied to u_0 .. u_i + k' applied to u_{L-1} .. u_{i+1} + D u_i.
torch::Tensor by_recurrence(const test::MixerCase& c, const std::string& discretisation) {
  const int64_t L = c.x.size(1);
  const auto weights = c.mixer->named_parameters();
  const bool both = weights["kernel.C"].size(0) == 2;
  auto y = torch::zeros_like(c.x);
  for (int64_t s = 0; s < c.x.size(0); ++s)
    for (int64_t h = 0; h < c.x.size(2); ++h)
      for (int64_t p = 0; p < c.x.size(3); ++p) {
        std::vector<double> u;
        for (int64_t t = 0; t < L; ++t) u.push_back(c.x[s][t][h][p].item<double>());
        const auto forward = recurrence_of(*c.mixer, h, 0, discretisation).run(u);
        std::vector<double> reverse(L, 0.0);
        if (both)
          reverse = recurrence_of(*c.mixer, h, 1, discretisation).run({u.rbegin(), u.rend()});
        const double D = weights["D"][h].item<double>();
        for (int64_t t = 0; t < L; ++t)
          y[s][t][h][p] = forward[t] + (t + 1 < L ? reverse[L - 2 - t] : 0.0) + D * u[t];
      }
  return y;
}

TEST(S4D, IsTheRecurrenceOfItsPaper) {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"s4d", "s4d_bidirectional"})
    for (const std::string spectrum : {"linear", "inverse", "real"})
      for (const std::string rule : {"zoh", "bilinear", "euler"})
        for (const int64_t L : {1, 2, 45}) {
          const CaseSizes sizes{
              .B = 1,
              .L = L,
              .heads = {2, 1},
              .options = {.d_state = 6, .spectrum = spectrum, .discretisation = rule}};
          const auto c = random_case(name, sizes, torch::kFloat64, 31);
          expect_close(c.mixer->mix(c.x, c.params), by_recurrence(c, rule), 1e-12,
                       name + ", " + spectrum + ", " + rule + ", L = " + std::to_string(L));
        }
}

TEST(S4D, StartsWithThePolesOfItsPaper) {
  const auto poles = [](const std::string& spectrum) {
    return make_mixer("s4d", {3, 2}, {.d_state = 8, .spectrum = spectrum})->named_parameters();
  };
  const auto linear = poles("linear"), inverse = poles("inverse"), real = poles("real");
  for (int64_t h = 0; h < 3; ++h)
    for (int64_t n = 0; n < 4; ++n) {
      EXPECT_NEAR(linear["kernel.log_A_real"][h][n].item<double>(), std::log(0.5), 1e-6);
      EXPECT_NEAR(linear["kernel.A_imag"][h][n].item<double>(), M_PI * n, 1e-5);
      EXPECT_NEAR(inverse["kernel.A_imag"][h][n].item<double>(), 8 / M_PI * (8.0 / (2 * n + 1) - 1),
                  1e-5);
      EXPECT_NEAR(real["kernel.log_A_real"][h][n].item<double>(), std::log(n + 1.0), 1e-6);
    }
  EXPECT_EQ(real["kernel.C"].sizes(), (std::vector<int64_t>{1, 3, 8}));
  EXPECT_EQ(real.find("kernel.A_imag"), nullptr);
  const auto odd = make_mixer("s4d", {3, 2}, {.d_state = 7})->named_parameters();
  EXPECT_EQ(odd["kernel.C"].sizes(), (std::vector<int64_t>{1, 3, 4, 2})) << "whole pairs";
  const auto dt = linear["kernel.log_dt"].exp();
  EXPECT_GE(dt.min().item<double>(), 0.9e-3);
  EXPECT_LE(dt.max().item<double>(), 1.1e-1);
}

// S6 with constant dt, B and C: h_t = exp(dt A) h_{t-1} + dt B x_t, y_t = C h_t. That is S4D with
// Euler's B, and toeplitz_di with that kernel. Zero-order hold is another matrix.
TEST(S4D, WithEulersRuleIsAConstantSelectiveScanAndAToeplitzMatrix) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  const int64_t N = 4, L = 12;
  const MixerOptions options{
      .d_state = N, .max_length = L, .spectrum = "real", .discretisation = "euler"};
  const auto s4d = make_mixer("s4d", {1, 1}, options);
  s4d->to(torch::kFloat64);
  const auto A = -torch::rand({N}, torch::kFloat64) - 0.1;
  const auto b = torch::randn({N}, torch::kFloat64), c = torch::randn({N}, torch::kFloat64);
  const double dt = 0.37, D = 0.8;
  auto weights = s4d->named_parameters();
  weights["kernel.log_dt"].fill_(std::log(dt));
  weights["kernel.log_A_real"][0].copy_(torch::log(-A));
  weights["kernel.C"][0][0].copy_(b * c);
  weights["D"].fill_(D);

  auto scan = torch::zeros({L, L}, torch::kFloat64);
  for (int64_t j = 0; j < L; ++j) {
    auto h = dt * b;  // an impulse at j
    for (int64_t i = j; i < L; ++i, h = torch::exp(dt * A) * h)
      scan[i][j] = (c * h).sum() + (i == j ? D : 0.0);
  }
  const auto nothing = torch::zeros({1, L, 0}, torch::kFloat64);
  const auto M = s4d->materialize(nothing, L);
  expect_close(M[0][0], scan, 1e-13, "constant selective scan");

  const auto toeplitz = make_mixer("toeplitz_di", {1, 1}, options);
  toeplitz->to(torch::kFloat64);
  auto t = toeplitz->named_parameters()["conv_params"];
  t.zero_();
  t[0].narrow(0, L - 1, L).copy_(scan.select(1, 0));
  t[0][L - 1] -= 1;  // the residual
  t.mul_(2 * std::sqrt(static_cast<double>(L)));
  expect_close(toeplitz->materialize(nothing, L), M, 1e-13, "toeplitz_di");

  const auto zoh = make_mixer("s4d", {1, 1}, {.d_state = N, .spectrum = "real"});
  zoh->to(torch::kFloat64);
  for (const auto& item : zoh->named_parameters()) item.value().copy_(weights[item.key()]);
  EXPECT_GT(test::relative_error(zoh->materialize(nothing, L), M), 1e-2);
}

TEST(S4D, WithoutSkipHasNoDAndIsOtherwiseTheSame) {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"s4d", "s4d_bidirectional"}) {
    CaseSizes sizes{.B = 1, .L = 9};
    const auto with = random_case(name, sizes, torch::kFloat64, 3);
    sizes.options.skip = false;
    const auto without = make_mixer(name, sizes.heads, sizes.options);
    without->to(torch::kFloat64);
    EXPECT_EQ(without->named_parameters().find("D"), nullptr);
    const auto weights = with.mixer->named_parameters();
    for (const auto& item : without->named_parameters()) item.value().copy_(weights[item.key()]);
    const auto D = torch::diag_embed(weights["D"].view({1, -1, 1}).expand({1, -1, 9}));
    expect_close(without->materialize(with.params, 9) + D, with.mixer->materialize(with.params, 9),
                 1e-14, name);
  }
}

// A state of size N can pass only N numbers on: semiseparable, and quasiseparable in both
// directions.
TEST(S4D, BlocksOffTheDiagonalHaveTheRankOfTheState) {
  const torch::NoGradGuard no_grad;
  const int64_t N = 4, L = 16;
  for (const std::string name : {"s4d", "s4", "s4d_bidirectional", "s4_bidirectional"}) {
    const CaseSizes sizes{.B = 1,
                          .L = L,
                          .heads = {1, 1},
                          .options = {.d_state = N, .max_length = L, .dt_min = 0.3, .dt_max = 0.5}};
    const auto c = random_case(name, sizes, torch::kFloat64, 9);
    const auto M = c.mixer->materialize(c.params, L)[0][0];
    const auto rank = [](const torch::Tensor& block) {
      const auto values = torch::linalg_svdvals(block);
      return (values > 1e-11 * values.max()).sum().item<int64_t>();
    };
    EXPECT_EQ(rank(M.narrow(0, L / 2, L / 2).narrow(1, 0, L / 2)), N) << name;
    EXPECT_EQ(rank(M.narrow(0, 0, L / 2).narrow(1, L / 2, L / 2)),
              name.ends_with("bidirectional") ? N : 0)
        << name;
    EXPECT_GT(rank(M), N) << name;
  }
}

// In float32 the phase of a late lag would be wrong in its first digits.
TEST(S4D, LateLagsAreAccurateInFloat32) {
  const torch::NoGradGuard no_grad;
  const int64_t L = 20000;
  const CaseSizes sizes{
      .B = 1, .L = L, .heads = {1, 1}, .options = {.d_state = 16, .spectrum = "inverse"}};
  const auto single = random_case("s4d", sizes, torch::kFloat32, 7);
  for (auto& p : single.mixer->named_parameters())
    if (p.key() == "kernel.log_A_real") p.value().fill_(-12.0);  // hardly any decay
  const auto wide = make_mixer("s4d", sizes.heads, sizes.options);
  wide->to(torch::kFloat64);
  const auto weights = single.mixer->named_parameters();
  for (const auto& item : wide->named_parameters()) item.value().copy_(weights[item.key()]);
  auto impulse = torch::zeros({1, L, 1, 1});
  impulse[0][0] = 1.0;
  const auto exact = wide->mix(impulse.to(torch::kFloat64), single.params.to(torch::kFloat64));
  const auto rounded = single.mixer->mix(impulse, single.params);
  expect_close(rounded.narrow(1, L - 50, 50), exact.narrow(1, L - 50, 50), 1e-5, "last lags");
}

}  // namespace
}  // namespace hydramix
