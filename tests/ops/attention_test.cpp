// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

struct AttentionCase {
  torch::Tensor q, k;   // (S or 1, H, L, d)
  torch::Tensor x;      // (S, L, H, P)
  torch::Tensor valid;  // (S, L) or undefined
  bool causal = false;
};

struct AttentionSizes {
  int64_t S = 2, H = 2, L = 5, d = 3, P = 4;
  bool shared = false, padded = false, causal = false;
  double scale = 1;  // of q and k
};

AttentionCase random_heads(const AttentionSizes& n, torch::ScalarType dtype) {
  const auto exact = torch::TensorOptions(torch::kFloat64);
  const auto head = [&] {
    return (n.scale * torch::randn({n.shared ? 1 : n.S, n.H, n.L, n.d}, exact)).to(dtype);
  };
  AttentionCase c{
      head(), head(), torch::randn({n.S, n.L, n.H, n.P}, exact).to(dtype), {}, n.causal};
  if (n.padded) {
    // Row 0 is full; row 1 has a single token, the last one, so there is no running maximum before
    // it.
    c.valid = torch::ones({n.S, n.L}, torch::kBool);
    if (n.S > 1) c.valid[1].narrow(0, 0, n.L - 1).fill_(false);
  }
  return c;
}

torch::Tensor dense(const AttentionCase& c) {
  auto z = torch::matmul(c.q, c.k.transpose(2, 3)) / std::sqrt(static_cast<double>(c.q.size(3)));
  if (c.valid.defined())
    z = z.masked_fill(~c.valid.unsqueeze(1).unsqueeze(2), -std::numeric_limits<double>::infinity());
  if (c.causal) {
    const auto i = torch::arange(z.size(2));
    z = z.masked_fill(i > i.unsqueeze(1), -std::numeric_limits<double>::infinity());
  }
  return dense_apply(z.softmax(-1), c.x);
}

torch::Tensor fast(const AttentionCase& c) {
  return c.causal ? causal_softmax_attention(c.q, c.k, c.x)
                  : softmax_attention(c.q, c.k, c.x, c.valid);
}

// On the CPU tiles have 256 queries and 512 keys.
const std::vector<int64_t> kLengths{1, 2, 31, 255, 256, 257, 511, 512, 513, 1031};

TEST(SoftmaxAttention, EqualsTheMatrixWithGradientsAtEveryLength) {
  torch::manual_seed(1);
  for (const bool shared : {false, true})
    for (const std::string kind : {"plain", "padded", "causal"})
      for (const int64_t L : kLengths) {
        const auto what = kind + ", L = " + std::to_string(L) + (shared ? ", shared" : "");
        auto c = random_heads(
            {.L = L, .shared = shared, .padded = kind == "padded", .causal = kind == "causal"},
            torch::kFloat64);
        for (auto* t : {&c.q, &c.k, &c.x}) t->requires_grad_();
        const auto y = fast(c), expected = dense(c), dy = torch::randn_like(c.x);
        // Sums of up to 1031 terms whose weights add up to one.
        expect_close(y, expected, 1e-13, what);
        const std::vector<torch::Tensor> inputs{c.q, c.k, c.x};
        const auto g = torch::autograd::grad({y}, inputs, {dy});
        const auto e = torch::autograd::grad({expected}, inputs, {dy});
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          // With one key the softmax is constant, and its gradient is zero up to rounding.
          if (L == 1 && i < 2)
            EXPECT_LE(g[i].abs().max().item<double>(), 1e-14) << what;
          else
            expect_close(g[i], e[i], 1e-12, what + ", gradient " + std::to_string(i));
        }
      }
}

TEST(SoftmaxAttention, StaysFiniteAndExactForLargeLogits) {
  torch::manual_seed(2);
  for (const double scale : {0.0, 30.0, 1e4, 1e10}) {
    auto c = random_heads({.L = 600, .padded = true, .scale = scale}, torch::kFloat64);
    for (auto* t : {&c.q, &c.k, &c.x}) t->requires_grad_();
    const auto y = fast(c);
    // The rounding of a logit is relative, and the exponential makes it absolute.
    expect_close(y, dense(c), 1e-13 * std::max(1.0, std::min(scale * scale, 1e13)),
                 "scale " + std::to_string(scale));
    for (const auto& g : torch::autograd::grad({y.sum()}, {c.q, c.k, c.x}))
      EXPECT_TRUE(torch::isfinite(g).all().item<bool>()) << scale;
  }
}

TEST(SoftmaxAttention, Float32IsAsGoodAsTheMatrix) {
  torch::manual_seed(3);
  const auto c = random_heads({.L = 1031, .d = 16, .P = 8, .padded = true}, torch::kFloat64);
  const auto single = [](const torch::Tensor& t) { return t.to(torch::kFloat32); };
  const AttentionCase s{single(c.q), single(c.k), single(c.x), c.valid};
  const AttentionCase rounded{s.q.to(torch::kFloat64), s.k.to(torch::kFloat64),
                              s.x.to(torch::kFloat64), c.valid};
  const auto truth = dense(rounded);
  EXPECT_LE(test::relative_error(fast(s), truth),
            2 * test::relative_error(dense(s), truth) + std::numeric_limits<float>::epsilon());
}

TEST(SoftmaxAttention, ANanStaysInItsSequence) {
  torch::manual_seed(4);
  const auto c = random_heads({.S = 3, .L = 600}, torch::kFloat64);
  auto q = c.q.clone(), x = c.x.clone();
  q[1].fill_(std::nan(""));
  x[1].fill_(std::nan(""));
  const auto y = fast({q, c.k, x, {}}), clean = fast(c);
  EXPECT_TRUE(torch::equal(y[0], clean[0]));
  EXPECT_TRUE(torch::equal(y[2], clean[2]));
  EXPECT_TRUE(y[1].isnan().all().item<bool>());
}

TEST(SoftmaxAttention, TakesNonContiguousTensorsAndInferenceMode) {
  torch::manual_seed(5);
  const auto c = random_heads({.L = 300}, torch::kFloat64);
  const auto turned = [](const torch::Tensor& t) {
    return t.permute({3, 2, 1, 0}).contiguous().permute({3, 2, 1, 0});
  };
  EXPECT_TRUE(torch::equal(fast({turned(c.q), turned(c.k), turned(c.x), {}}), fast(c)));
  const auto y = fast(c);
  const c10::InferenceMode inference;
  EXPECT_TRUE(torch::equal(fast(c), y));
}

TEST(SoftmaxAttention, DoesNotDependOnTheNumberOfThreads) {
  torch::manual_seed(6);
  const auto c = random_heads({.L = 700, .P = 40}, torch::kFloat32);
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const auto one = fast(c);
  torch::set_num_threads(3);
  const auto three = fast(c);
  torch::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(one, three));
}

TEST(SoftmaxAttention, SecondDerivativesAreRefused) {
  auto c = random_heads({}, torch::kFloat64);
  c.q.requires_grad_();
  const auto y = fast(c).square().sum();
  EXPECT_THROW_WITH(torch::autograd::grad({y}, {c.q}, {}, true, /*create_graph=*/true), Error,
                    "Differentiate materialize(params, L) @ x instead");
}

}  // namespace
}  // namespace hydramix
