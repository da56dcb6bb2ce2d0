// SPDX-License-Identifier: Apache-2.0
// Hyena against its definition, token by token: the filter from the formulas of Poli et al. 2023
// (section 3.3 and appendix D.3), then the recurrence of gates and convolutions as plain sums.
#include <cmath>

#include "hydramix/error.h"
#include "support/equal_gradients.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::random_case;

using Vector = std::vector<double>;
using HyenaWeights = torch::OrderedDict<std::string, torch::Tensor>;

double at(const torch::Tensor& t, const std::vector<int64_t>& index) {
  torch::Tensor e = t;
  for (const int64_t i : index) e = e[i];
  return e.item<double>();
}

// The value of kernel c at position l, by loops over single neurons.
double hyena_kernel(const HyenaWeights& weights, const std::string& network, int64_t l, int64_t c,
                    int64_t kernels, int64_t max_length) {
  const auto& table = weights["filter.position_embeddings"];
  Vector h;
  for (int64_t f = 0; f < table.size(1); ++f) {
    const int64_t bands = (table.size(1) - 1) / 2, band = (f - 1) % bands;
    const double turn = 2 * M_PI * static_cast<double>(l) / static_cast<double>(max_length);
    const double step = bands == 1 ? 0 : (static_cast<double>(bands) - 1 - 1e-4) / (bands - 1);
    const double angle = turn * (1e-4 + step * static_cast<double>(band));
    h.push_back(l < max_length ? at(table, {l, f})
                : f == 0       ? static_cast<double>(l) / static_cast<double>(max_length - 1)
                : f <= bands   ? std::cos(angle)
                               : -std::sin(angle));
  }
  const auto name_of = [&](int layer) {
    return "filter." + network + "." + std::to_string(layer) + ".";
  };
  int layers = 1;
  while (weights.contains(name_of(layers) + "weight")) ++layers;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = name_of(layer);
    const auto& W = weights[name + "weight"];
    Vector next;
    for (int64_t out = 0; out < W.size(0); ++out) {
      double sum = layer < layers - 1 ? at(weights[name + "bias"], {out}) : 0;
      for (int64_t in = 0; in < W.size(1); ++in)
        sum += at(W, {out, in}) * h[static_cast<std::size_t>(in)];
      next.push_back(layer < layers - 1 ? std::sin(at(weights["filter.frequency"], {out}) * sum)
                                        : sum);
    }
    h = next;
  }
  const double slow = std::log(100) / 1.5, fast = std::log(100) / 0.3;
  const double share = kernels == 1 ? 0 : static_cast<double>(c) / static_cast<double>(kernels - 1);
  const double rate = slow + share * (fast - slow);
  return h[static_cast<std::size_t>(c)] *
         std::exp(-rate * static_cast<double>(l) / static_cast<double>(max_length - 1));
}

// y = g_0 (h_{n-2} * (g_1 ( ... h_0 * (g_{n-1} x)))), one head and channel.
Vector hyena_recurrence(const test::MixerCase& c, int64_t order, int64_t h, bool bidirectional,
                        int64_t max_length) {
  const auto weights = c.mixer->named_parameters();
  const int64_t H = c.mixer->heads().H, L = c.x.size(1), kernels = H * (order - 1);
  Vector z;
  for (int64_t i = 0; i < L; ++i) z.push_back(at(c.x, {0, i, h, 1}));
  for (int64_t n = order - 1; n >= 0; --n) {
    for (int64_t i = 0; i < L; ++i)
      z[static_cast<std::size_t>(i)] *= at(c.params, {0, i, n * H + h});
    if (n == 0) break;
    const int64_t o = order - 1 - n, kernel = h * (order - 1) + o;
    Vector next(static_cast<std::size_t>(L), 0.0), forward, reverse;
    for (int64_t l = 0; l < L; ++l) {
      forward.push_back(hyena_kernel(weights, "forward_network", l, kernel, kernels, max_length));
      if (bidirectional)
        reverse.push_back(hyena_kernel(weights, "reverse_network", l, kernel, kernels, max_length));
    }
    for (int64_t i = 0; i < L; ++i)
      for (int64_t j = 0; j < L; ++j) {
        double t = i == j ? at(weights["D"], {kernel}) : 0;
        if (i >= j) t += forward[static_cast<std::size_t>(i - j)];
        if (i < j && bidirectional) t += reverse[static_cast<std::size_t>(j - i - 1)];
        next[static_cast<std::size_t>(i)] += t * z[static_cast<std::size_t>(j)];
      }
    z = next;
  }
  return z;
}

// With 2, 3 and 4 matrices in the filter for 4, 3 and 2 gates.
CaseSizes hyena_sizes(int64_t order, int64_t L, int64_t max_length) {
  MixerOptions options;
  options.order = order;
  options.max_length = max_length;
  options.filter_width = 4;
  options.filter_layers = 6 - order;
  options.filter_features = order == 2 ? 3 : 5;
  options.filter_frequency = 2;
  return {.B = 1, .L = L, .heads = {2, 2}, .options = options};
}

TEST(Hyena, IsTheRecurrenceOfGatesAndConvolutions) {
  for (const std::string name : {"hyena", "hyena_bidirectional"})
    for (const int64_t order : {2, 3, 4})
      for (const int64_t max_length : {9, 5}) {  // the second: beyond its learned positions
        const int64_t L = 9;
        const auto c =
            random_case(name, hyena_sizes(order, L, max_length), torch::kFloat64, 20 + order);
        const auto y = c.mixer->mix(c.x, c.params).detach();
        const auto built = dense_apply(c.mixer->materialize(c.params, L), c.x).detach();
        for (int64_t h = 0; h < 2; ++h) {
          const auto z = hyena_recurrence(c, order, h, name != "hyena", max_length);
          const auto expected = torch::tensor(z, torch::kFloat64);
          EXPECT_EQ(c.mixer->named_parameters().contains("filter.forward_network.2.weight"),
                    order < 4);
          const std::string what = name + " of order " + std::to_string(order);
          expect_close(y[0].select(1, h).select(1, 1), expected, 1e-12, what + ", product");
          expect_close(built[0].select(1, h).select(1, 1), expected, 1e-12, what + ", matrix");
        }
      }
}

TEST(Hyena, IsAlignedInBothDirectionsOnlyWithoutInnerGates) {
  for (const int64_t order : {2, 3}) {
    const auto c =
        random_case("hyena_bidirectional", hyena_sizes(order, 12, 12), torch::kFloat64, 30);
    auto later = c.params.clone();
    later.narrow(1, 8, 4).add_(1.0);
    const auto leading = [&](const torch::Tensor& params) {
      return c.mixer->materialize(params, 12).narrow(2, 0, 8).narrow(3, 0, 8).detach();
    };
    const double change = test::relative_error(leading(later), leading(c.params));
    EXPECT_EQ(c.mixer->info().sequence_aligned, order == 2);
    if (order == 2)
      EXPECT_EQ(change, 0);
    else
      EXPECT_GT(change, 1e-3);
  }
}

TEST(Hyena, LongSequencesEqualTheMatrixWithTheirGradients) {
  for (const std::string name : {"hyena", "hyena_bidirectional"}) {
    auto c = random_case(name, hyena_sizes(3, 300, 200), torch::kFloat64, 31);
    const auto inputs = test::inputs_with_gradients(c);
    const auto fast = c.mixer->mix(c.x, c.params);
    const auto dense = dense_apply(c.mixer->materialize(c.params, 300), c.x);
    expect_close(fast.detach(), dense.detach(), 1e-12, name);
    const auto dy = torch::randn_like(fast);
    const auto a = torch::autograd::grad({fast}, inputs, {dy}),
               b = torch::autograd::grad({dense}, inputs, {dy});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      expect_close(a[i], b[i], 1e-11, name + ", gradient " + std::to_string(i));
  }
}

TEST(Hyena, WrongOptionsAreExplained) {
  MixerOptions options;
  options.filter_features = 4;
  EXPECT_THROW_WITH(make_mixer("hyena", {2, 2}, options), UsageError,
                    "filter_features = 4 is even");
  options.filter_features = 5;
  options.order = 1;
  EXPECT_THROW_WITH(make_mixer("hyena", {2, 2}, options), UsageError, "order");
}

}  // namespace
}  // namespace hydramix
