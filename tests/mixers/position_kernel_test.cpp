// SPDX-License-Identifier: Apache-2.0
// CKConv, TNN and M2's convolution, entry by entry: their networks neuron by neuron, from the
// formulas of Romero et al. 2021 and Qin et al. 2023.
#include <cmath>
#include <functional>

#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::MixerCase;
using test::random_case;

using Neurons = std::vector<double>;

// W_n a(... a(W_1 p + b_1) ...) + b_n of the weights "network.<layer>", for a number p.
Neurons network_at(const MixerCase& c, double p, int layers,
                   const std::function<Neurons(Neurons)>& activation) {
  const auto weights = c.mixer->named_parameters();
  Neurons h{p};
  for (int layer = 0; layer < layers; ++layer) {
    if (layer > 0) h = activation(h);
    const std::string name = "network." + std::to_string(layer) + ".";
    const auto W = weights[name + "weight"].detach(), b = weights[name + "bias"].detach();
    Neurons next;
    for (int64_t out = 0; out < W.size(0); ++out) {
      double sum = b[out].item<double>();
      for (int64_t in = 0; in < W.size(1); ++in)
        sum += W[out][in].item<double>() * h[static_cast<std::size_t>(in)];
      next.push_back(sum);
    }
    h = next;
  }
  return h;
}

void expect_entries(const MixerCase& c, const std::function<Neurons(int64_t)>& kernel,
                    const std::string& what) {
  const int64_t L = c.x.size(1), H = c.mixer->heads().H;
  auto M = torch::zeros({1, H, L, L}, torch::kFloat64);
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < L; ++j) {
      const Neurons m = kernel(i - j);
      for (int64_t h = 0; h < H; ++h) M[0][h][i][j] = m[static_cast<std::size_t>(h)];
    }
  expect_close(c.mixer->materialize(c.params, L).detach(), M, 1e-12, what + ", matrix");
  expect_close(c.mixer->mix(c.x, c.params).detach(), dense_apply(M, c.x), 1e-12,
               what + ", product");
}

TEST(CkConv, IsASirenOfTheRelativePosition) {
  const int64_t L = 9;
  for (const int64_t max_length : {9, 6, 1}) {
    CaseSizes sizes{.B = 1, .L = L};
    sizes.options.max_length = max_length;
    sizes.options.filter_frequency = 2.5;
    const auto c = random_case("ckconv", sizes, torch::kFloat64, 1);
    const auto sines = [](Neurons v) {
      for (double& n : v) n = std::sin(2.5 * n);
      return v;
    };
    const double span = max_length > 1 ? static_cast<double>(max_length - 1) : 1;
    expect_entries(
        c,
        [&](int64_t lag) {
          if (lag < 0) return Neurons(4, 0.0);
          return network_at(c, 1 - 2 * static_cast<double>(lag) / span, 3, sines);
        },
        "ckconv");
  }
}

TEST(CkConv, StartsWithKernelsOfOrderOneAtEveryFrequency) {
  for (const double frequency : {1.0, 30.0}) {
    torch::manual_seed(2);
    MixerOptions options;
    options.filter_frequency = frequency;
    options.max_length = 64;
    const auto mixer = make_mixer("ckconv", {16, 1}, options);
    const auto k = mixer->materialize(torch::zeros({1, 64, 0}), 64)[0].detach().select(2, 0);
    EXPECT_GT(k.abs().mean().item<double>(), 0.1) << frequency;
    EXPECT_LT(k.abs().max().item<double>(), 10) << frequency;
  }
}

TEST(Tnn, IsANetworkOfTheLagTimesADecay) {
  for (const std::string name : {"tnn", "tnn_bidirectional"}) {
    CaseSizes sizes{.B = 1, .L = 9};
    sizes.options.filter_decay = 0.8;
    const auto c = random_case(name, sizes, torch::kFloat64, 3);
    const auto normed = [](Neurons v) {
      double squares = 0;
      for (const double n : v) squares += n * n;
      const double rms = std::sqrt(squares / static_cast<double>(v.size()));
      for (double& n : v) n = std::max(0.0, n / (rms + 1e-8));
      return v;
    };
    expect_entries(
        c,
        [&](int64_t lag) {
          if (lag < 0 && name == "tnn") return Neurons(4, 0.0);
          auto k = network_at(c, static_cast<double>(lag), 5, normed);
          for (double& n : k) n *= std::pow(0.8, std::abs(static_cast<double>(lag)));
          return k;
        },
        name);
  }
}

// BERT's initial weights leave no bias: the network is then zero at lag 0.
TEST(Tnn, HasGradientsWhereItsNormsAreZero) {
  const auto mixer = make_mixer("tnn_bidirectional", {2, 2}, {});
  {
    const torch::NoGradGuard no_grad;
    for (const auto& p : mixer->named_parameters())
      if (p.key().ends_with("bias")) p.value().zero_();
  }
  mixer->mix(torch::randn({1, 5, 2, 2}), torch::zeros({1, 5, 0})).sum().backward();
  for (const auto& p : mixer->named_parameters())
    EXPECT_TRUE(torch::isfinite(p.value().grad()).all().item<bool>()) << p.key();
}

TEST(M2Conv, IsHyenaWithoutGates) {
  CaseSizes sizes{.B = 1, .L = 40};
  sizes.options.max_length = 30;
  const auto m2 = random_case("m2_conv", sizes, torch::kFloat64, 4);
  const auto hyena = random_case("hyena_bidirectional", sizes, torch::kFloat64, 5);
  const auto weights = m2.mixer->named_parameters();
  {
    const torch::NoGradGuard no_grad;
    for (const auto& p : hyena.mixer->named_parameters())
      p.value().copy_(weights[p.key()].view(p.value().sizes()));
  }
  expect_close(m2.mixer->materialize(m2.params, 40),
               hyena.mixer->materialize(torch::ones_like(hyena.params), 40), 1e-14, "m2_conv");
  EXPECT_EQ(weights.size(), hyena.mixer->named_parameters().size());
}

class PositionKernel : public ::testing::TestWithParam<std::string> {};

TEST_P(PositionKernel, LongSequencesEqualTheMatrixWithTheirGradients) {
  const int64_t L = 300;
  auto c = random_case(GetParam(), {.B = 2, .L = L, .heads = {2, 1}}, torch::kFloat64, 6);
  c.x.requires_grad_();
  std::vector<torch::Tensor> inputs{c.x};
  for (const auto& p : c.mixer->parameters()) inputs.push_back(p);
  const auto fast = c.mixer->mix(c.x, c.params);
  const auto dense = dense_apply(c.mixer->materialize(c.params, L), c.x);
  expect_close(fast.detach(), dense.detach(), 1e-12, GetParam());
  const auto dy = torch::randn_like(fast);
  const auto a = torch::autograd::grad({fast}, inputs, {dy}),
             b = torch::autograd::grad({dense}, inputs, {dy});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(a[i], b[i], 1e-11, GetParam() + ", gradient " + std::to_string(i));
}

INSTANTIATE_TEST_SUITE_P(All, PositionKernel,
                         ::testing::Values("ckconv", "tnn", "tnn_bidirectional", "m2_conv"),
                         test::parameter_name);

}  // namespace
}  // namespace hydramix
