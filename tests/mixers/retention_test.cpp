// SPDX-License-Identifier: Apache-2.0
// RetNet, TransNormer and the LRU against the equations of their papers: recurrences with complex
// states, in float64.
#include <cmath>
#include <complex>

#include "hydramix/error.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::random_case;
using Complex = std::complex<double>;

constexpr int64_t kHeads = 3, kChannels = 2, kLength = 70;

test::MixerCase case_of(const std::string& name, int64_t d) {
  return random_case(
      name,
      {.B = 1, .L = kLength, .heads = {kHeads, kChannels}, .options = {.qk_dim = d, .tile = 16}},
      torch::kFloat64, 31);
}

// Calls f(h, q, k, v, y) for every head: rows of d, d, P and P numbers per token.
template <class F>
torch::Tensor head_by_head(const test::MixerCase& c, int64_t d, F&& f) {
  auto y = torch::zeros_like(c.x[0]);
  const auto params = c.params[0].view({kLength, 2, kHeads, d});
  for (int64_t h = 0; h < kHeads; ++h) {
    const auto q = params.select(1, 0).select(1, h).contiguous(),
               k = params.select(1, 1).select(1, h).contiguous();
    const auto v = c.x[0].select(1, h).contiguous();
    auto out = torch::zeros_like(v);
    f(h, q.accessor<double, 2>(), k.accessor<double, 2>(), v.accessor<double, 2>(),
      out.accessor<double, 2>());
    y.select(1, h).copy_(out);
  }
  return y.unsqueeze(0);
}

// S_n = gamma e^{i theta} S_{n-1} + k_n^* v_n, o_n = Re(q_n S_n): equation 3 of the paper with
// A = gamma e^{i theta}.
TEST(RetNet, EqualsTheComplexRecurrence) {
  for (const int64_t d : {2, 4, 5}) {
    const auto c = case_of("retnet", d);
    const auto expected = head_by_head(c, d, [&](int64_t h, auto q, auto k, auto v, auto out) {
      const double gamma = 1 - std::pow(2.0, -5.0 - static_cast<double>(h));
      const int64_t states = (d + 1) / 2;  // the last channel of an odd d is a real state
      std::vector<Complex> S(states * kChannels);
      for (int64_t n = 0; n < kLength; ++n)
        for (int64_t s = 0; s < states; ++s) {
          const bool pair = 2 * s + 1 < d;
          const double theta =
              pair ? std::pow(10000.0, -2.0 * static_cast<double>(s) / static_cast<double>(d)) : 0;
          const Complex key(k[n][2 * s], pair ? k[n][2 * s + 1] : 0);
          const Complex query(q[n][2 * s], pair ? q[n][2 * s + 1] : 0);
          for (int64_t p = 0; p < kChannels; ++p) {
            auto& state = S[s * kChannels + p];
            state = std::polar(gamma, theta) * state + std::conj(key) * v[n][p];
            out[n][p] += std::real(query * state) / std::sqrt(static_cast<double>(d));
          }
        }
    });
    expect_close(c.mixer->mix(c.x, c.params), expected, 1e-12, "d = " + std::to_string(d));
  }
}

// The columns q or k (L, H, d) with pair p at place i turned by -i 10000^{-2p/d}, which undoes the
// rotation of the mixer.
torch::Tensor turned_back(const torch::Tensor& t) {
  const int64_t L = t.size(0), d = t.size(2);
  auto result = t.clone();
  for (int64_t p = 0; p < d / 2; ++p) {
    const double theta = std::pow(10000.0, -2.0 * static_cast<double>(p) / static_cast<double>(d));
    const auto angle = (theta * torch::arange(L, torch::kFloat64)).unsqueeze(1);  // (L, 1)
    const auto re = t.select(2, 2 * p), im = t.select(2, 2 * p + 1);
    result.select(2, 2 * p).copy_(re * angle.cos() + im * angle.sin());
    result.select(2, 2 * p + 1).copy_(im * angle.cos() - re * angle.sin());
  }
  return result;
}

// Without decay and rotation it is the causal half of q_i . k_j / sqrt(d). The decay of the last
// head is 1 - 2^-64, which is 1 in float64.
TEST(RetNet, WithoutDecayAndRotationIsTheCausalHalfOfTheScores) {
  const int64_t H = 60, L = 9;
  for (const int64_t d : {1, 4, 5}) {
    const auto c = random_case(
        "retnet", {.B = 1, .L = L, .heads = {H, 2}, .options = {.qk_dim = d}}, torch::kFloat64, 33);
    const auto q = c.params[0].narrow(1, 0, H * d).view({L, H, d}),
               k = c.params[0].narrow(1, H * d, H * d).view({L, H, d});
    const auto params = torch::cat({turned_back(q).flatten(1), turned_back(k).flatten(1)}, 1);
    const auto scores = torch::matmul(q.select(1, H - 1), k.select(1, H - 1).t()).tril() /
                        std::sqrt(static_cast<double>(d));
    const auto what = concat("last head, d = ", d);
    expect_close(c.mixer->materialize(params.unsqueeze(0), L)[0][H - 1], scores, 1e-12, what);
    expect_close(c.mixer->mix(c.x, params.unsqueeze(0))[0].select(1, H - 1),
                 torch::matmul(scores, c.x[0].select(1, H - 1)), 1e-12, what + ", product");
  }
}

// kv_t = lambda kv_{t-1} + (k_t e^{i theta t})^* v_t, o_t = Re(q_t e^{i theta t} kv_t): LRPE-d.
TEST(TransNormer, EqualsTheRecurrenceWithLrpe) {
  const int64_t d = 3;
  const auto c = case_of("transnormer", d);
  const auto theta = c.mixer->named_parameters()["theta"].detach();
  const auto expected = head_by_head(c, d, [&](int64_t h, auto q, auto k, auto v, auto out) {
    const double lambda = std::exp(-8.0 * static_cast<double>(h) / kHeads);
    std::vector<Complex> kv(d * kChannels);
    for (int64_t n = 0; n < kLength; ++n)
      for (int64_t e = 0; e < d; ++e) {
        const auto turn = std::polar(1.0, theta[h][e].item<double>() * static_cast<double>(n));
        for (int64_t p = 0; p < kChannels; ++p) {
          auto& state = kv[e * kChannels + p];
          state = lambda * state + std::conj(k[n][e] * turn) * v[n][p];
          out[n][p] += std::real(q[n][e] * turn * state);
        }
      }
  });
  expect_close(c.mixer->mix(c.x, c.params), expected, 1e-12, "transnormer");
}

TEST(Lru, EqualsTheComplexRecurrence) {
  const auto c = case_of("lru", 1);
  const auto weights = c.mixer->named_parameters();
  const auto number = [&](const char* name, int64_t h) {
    return weights[name].detach()[h].item<double>();
  };
  auto expected = torch::zeros({1, kLength, 2 * kHeads, kChannels}, torch::kFloat64);
  for (int64_t h = 0; h < kHeads; ++h) {
    const auto lambda =
        std::exp(Complex(-std::exp(number("nu_log", h)), std::exp(number("theta_log", h))));
    for (int64_t p = 0; p < kChannels; ++p) {
      Complex state = 0;
      for (int64_t n = 0; n < kLength; ++n) {
        state = lambda * state + std::exp(number("gamma_log", h)) * c.x[0][n][h][p].item<double>();
        expected[0][n][h][p] = state.real();
        expected[0][n][kHeads + h][p] = state.imag();
      }
    }
  }
  expect_close(c.mixer->mix(c.x, c.params), expected, 1e-12, "lru");
}

// The published unit: complex B and C around the recurrence. x has Re and Im of B u in the two
// channels of a head.
TEST(Lru, WithTwoChannelsPerHeadIsThePublishedUnit) {
  const auto c = case_of("lru", 1);
  const auto weights = c.mixer->named_parameters();
  const auto values = [&](const char* name) { return weights[name].detach(); };
  const auto y = c.mixer->mix(c.x, c.params).detach()[0];
  const auto re = y.narrow(1, 0, kHeads), im = y.narrow(1, kHeads, kHeads);
  const auto C = torch::randn({kHeads, 2}, torch::kFloat64);
  // h = (re_0 + i im_0) + i (re_1 + i im_1)
  const auto real = re.select(2, 0) - im.select(2, 1),
             imaginary = im.select(2, 0) + re.select(2, 1);
  const auto ours = (real * C.select(1, 0) - imaginary * C.select(1, 1)).sum(1);

  const auto lambda =
      torch::exp(torch::complex(-values("nu_log").exp(), values("theta_log").exp()));
  const auto Bu =
      torch::complex(c.x[0].select(2, 0).contiguous(), c.x[0].select(2, 1).contiguous());
  auto h = torch::zeros_like(lambda);
  std::vector<torch::Tensor> published;
  for (int64_t n = 0; n < kLength; ++n) {
    h = lambda * h + values("gamma_log").exp() * Bu[n];
    published.push_back(torch::real((torch::view_as_complex(C) * h).sum()));
  }
  expect_close(ours, torch::stack(published), 1e-12, "Re(C h)");
}

TEST(Lru, StartsNormalised) {
  torch::manual_seed(5);
  const auto mixer = make_mixer("lru", {64, 1}, {});
  const auto weights = mixer->named_parameters();
  const auto size = torch::exp(-weights["nu_log"].exp());
  expect_close(weights["gamma_log"].exp(), torch::sqrt(1 - size * size), 1e-4, "gamma");
}

// Angles in float32 would be wrong in the second digit here.
TEST(RetNet, KeepsItsDigitsFarFromTheStart) {
  const int64_t L = 20000;
  for (const std::string name : {"retnet", "transnormer", "lru"}) {
    const CaseSizes sizes{.B = 1, .L = L, .heads = {2, 2}, .options = {.qk_dim = 2}};
    const auto exact = random_case(name, sizes, torch::kFloat64, 35);
    auto single = random_case(name, sizes, torch::kFloat32, 35);
    {
      // The same weights: a rounded angle differs by 20000 times its rounding error.
      torch::NoGradGuard no_grad;
      auto weights = exact.mixer->named_parameters();
      for (const auto& w : single.mixer->named_parameters()) weights[w.key()].copy_(w.value());
    }
    const auto y =
        exact.mixer->mix(single.x.to(torch::kFloat64), single.params.to(torch::kFloat64));
    EXPECT_LT(test::relative_error(single.mixer->mix(single.x, single.params), y), 2e-6) << name;
  }
}

}  // namespace
}  // namespace hydramix
