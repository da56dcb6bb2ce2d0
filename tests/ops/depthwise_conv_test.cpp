// SPDX-License-Identifier: Apache-2.0
// The definition of the convolution, and the kernels compared with it in float64, on every
// instruction set.
#include "ops/depthwise_conv.h"

#include <cmath>
#include <set>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;
using torch::Tensor;

TEST(DepthwiseConv, FollowsItsDefinitionForEveryWidth) {
  for (const int64_t K : {1, 2, 3, 4, 7, 8})
    for (const int64_t L : {1, 2, 5, 19})
      for (const bool causal : {false, true}) {
        torch::manual_seed(K * 100 + L);
        const int64_t C = 3, centre = causal ? K - 1 : K / 2;
        const auto w = torch::randn({2, L, C}, torch::kFloat64),
                   weight = torch::randn({C, 1, K}, torch::kFloat64);
        const auto bias = torch::randn({C}, torch::kFloat64);
        auto y = bias.expand({2, L, C}).clone();
        for (int64_t t = 0; t < L; ++t)
          for (int64_t k = 0; k < K; ++k)
            if (const int64_t from = t + k - centre; from >= 0 && from < L)
              y.select(1, t) += weight.select(2, k).select(1, 0) * w.select(1, from);
        expect_close(depthwise_conv_ref(w, weight, bias, causal), y, 1e-14,
                     "K " + std::to_string(K));
        expect_close(depthwise_conv_ref(w, weight, {}, causal), y - bias, 1e-13, "without bias");
      }
}

TEST(DepthwiseConv, OddWidthsEqualLibTorch) {
  torch::manual_seed(1);
  const auto w = torch::randn({2, 11, 4}, torch::kFloat64),
             weight = torch::randn({4, 1, 7}, torch::kFloat64);
  const auto bias = torch::randn({4}, torch::kFloat64);
  const auto theirs = torch::conv1d(w.transpose(1, 2), weight, bias, 1, 3, 1, 4).transpose(1, 2);
  expect_close(depthwise_conv_ref(w, weight, bias, false), theirs, 1e-14, "width 7");
}

struct ConvCase {
  Tensor x, weight, bias;  // (1, n, C), (C, 1, K), (C) or undefined
  std::vector<int64_t> offsets;
  bool causal = false;
  int64_t silu = 0;

  std::vector<std::pair<std::string, Tensor*>> inputs() {
    std::vector<std::pair<std::string, Tensor*>> all{{"x", &x}, {"weight", &weight}};
    if (bias.defined()) all.emplace_back("bias", &bias);
    return all;
  }
  Tensor run() const {
    return depthwise_conv_silu(x, weight, bias, causal, silu,
                               Layout::packed(torch::tensor(offsets)));
  }
  Tensor reference() const {
    std::vector<Tensor> each;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      const int64_t L = offsets[s + 1] - offsets[s], C = x.size(2);
      if (L == 0) continue;
      const auto u = depthwise_conv_ref(x.narrow(1, offsets[s], L), weight, bias, causal);
      each.push_back(
          torch::cat({torch::silu(u.narrow(2, 0, silu)), u.narrow(2, silu, C - silu)}, 2));
    }
    return torch::cat(each, 1);
  }
  ConvCase to(torch::ScalarType type) const {
    ConvCase c = *this;
    for (auto& [name, t] : c.inputs()) *t = t->detach().to(type);
    return c;
  }
};

struct DepthwiseSizes {
  int64_t C = 5, K = 4;
  bool causal = false, bias = true;
  int64_t silu = 3;
};

ConvCase random_conv(const std::vector<int64_t>& lengths, const DepthwiseSizes& z, uint64_t seed) {
  torch::manual_seed(seed);
  ConvCase c;
  c.offsets = {0};
  for (const int64_t L : lengths) c.offsets.push_back(c.offsets.back() + L);
  c.x = torch::randn({1, c.offsets.back(), z.C}, torch::kFloat64);
  c.weight = torch::randn({z.C, 1, z.K}, torch::kFloat64);
  if (z.bias) c.bias = torch::randn({z.C}, torch::kFloat64);
  c.causal = z.causal;
  c.silu = z.silu;
  return c;
}

// The output, then the gradient of every input.
std::vector<Tensor> everything_of_conv(ConvCase c, const Tensor& dy) {
  for (auto& [name, t] : c.inputs()) *t = t->detach().clone().requires_grad_();
  const auto y = c.run();
  y.backward(dy);
  std::vector<Tensor> all{y.detach()};
  for (auto& [name, t] : c.inputs()) all.push_back(t->grad());
  return all;
}

void expect_conv_equals_reference(ConvCase c, const std::string& what) {
  std::vector<Tensor> inputs;
  for (auto& [name, t] : c.inputs()) inputs.push_back(t->requires_grad_());
  const auto fast = c.run(), plain = c.reference();
  expect_close(fast, plain, 1e-12, what);
  {
    torch::NoGradGuard no_grad;
    EXPECT_TRUE(torch::equal(c.run(), fast)) << what;
  }
  const auto dy = torch::randn_like(plain);
  const auto a = torch::autograd::grad({fast}, inputs, {dy}),
             b = torch::autograd::grad({plain}, inputs, {dy});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(a[i], b[i], 1e-12, what + ": gradient of " + c.inputs()[i].first);
}

std::string described(const DepthwiseSizes& z) {
  return "C " + std::to_string(z.C) + ", K " + std::to_string(z.K) + ", SiLU " +
         std::to_string(z.silu) + (z.causal ? ", causal" : "") + (z.bias ? "" : ", no bias");
}

class Conv : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(Conv, EqualsItsDefinitionForEveryWidth) {
  for (const int64_t K : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const bool causal : {false, true})
      for (const bool bias : {false, true}) {
        const DepthwiseSizes z{.K = K, .causal = causal, .bias = bias};
        expect_conv_equals_reference(random_conv({1, 0, 19, 130, 2}, z, K), described(z));
      }
}

TEST_P(Conv, EqualsItsDefinitionWiderThanBlocksAndSequences) {
  for (const int64_t K : {127, 200, 301})
    for (const bool causal : {false, true}) {
      const DepthwiseSizes z{.C = 3, .K = K, .causal = causal, .silu = 2};
      expect_conv_equals_reference(random_conv({1, 0, 127, 128, 129, 300}, z, K), described(z));
    }
}

TEST_P(Conv, EqualsItsDefinitionForAnyChannels) {
  for (const int64_t C : {1, 3, 16, 17, 65, 300})
    for (const int64_t silu : std::set<int64_t>{0, C / 2, C - 1, C}) {
      const DepthwiseSizes z{.C = C, .silu = silu};
      expect_conv_equals_reference(random_conv({1, 0, 127, 128, 129, 30}, z, C + silu),
                                   described(z));
    }
}

TEST_P(Conv, ARowIsASequenceUnlessTheLayoutSaysOtherwise) {
  const auto c = random_conv({140, 140}, {}, 1);
  const auto rows = c.x.view({2, 140, 5});
  EXPECT_TRUE(torch::equal(depthwise_conv_silu(rows, c.weight, c.bias, false, 3, Layout()),
                           c.run().view({2, 140, 5})));
  EXPECT_EQ(depthwise_conv_silu(rows.narrow(1, 0, 0), c.weight, c.bias, false, 3, Layout()).sizes(),
            (std::vector<int64_t>{2, 0, 5}));
}

TEST_P(Conv, Float32IsCloseToFloat64) {
  // Sums of up to 128 products: their rounding errors add up to about ten units of 6e-8.
  for (const int64_t K : {4, 7, 60}) {
    const auto c = random_conv({300, 41}, {.C = 40, .K = K, .silu = 23}, K);
    const auto dy = torch::randn_like(c.x);
    const auto wide = everything_of_conv(c, dy),
               single = everything_of_conv(c.to(torch::kFloat32), dy.to(torch::kFloat32));
    for (std::size_t i = 0; i < wide.size(); ++i)
      expect_close(single[i], wide[i], 2e-6, "K " + std::to_string(K) + ", " + std::to_string(i));
  }
}

TEST_P(Conv, Bfloat16IsStorageOnly) {
  auto rounded = random_conv({150, 3}, {.C = 37, .silu = 20}, 2).to(torch::kFloat32),
       wide = rounded;
  rounded.x = rounded.x.to(torch::kBFloat16);
  wide.x = rounded.x.to(torch::kFloat32);
  const auto dy = torch::randn_like(rounded.x);
  const auto a = everything_of_conv(rounded, dy),
             b = everything_of_conv(wide, dy.to(torch::kFloat32));
  for (const int i : {0, 1}) EXPECT_TRUE(torch::equal(a[i], b[i].to(torch::kBFloat16))) << i;
  for (const int i : {2, 3}) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
}

TEST_P(Conv, ReadsStridedAndMisalignedRows) {
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    auto c = random_conv({150, 3}, {.C = 37, .silu = 20}, 3).to(torch::kFloat32);
    c.x = c.x.to(type);
    const auto dy = torch::randn_like(c.x);
    const auto plain = everything_of_conv(c, dy);
    // Shifted by one value in a wider buffer with NaN around it, so that no row is aligned to a
    // vector.
    const auto wider = torch::full({1, 153, 40}, NAN, c.x.options());
    wider.narrow(2, 1, 37).copy_(c.x);
    c.x = wider.narrow(2, 1, 37).requires_grad_();
    ASSERT_FALSE(c.x.is_contiguous());
    const auto y = c.run();
    EXPECT_TRUE(torch::equal(y, plain[0]));
    const auto far = torch::full({1, 153, 40}, NAN, c.x.options());
    far.narrow(2, 2, 37).copy_(dy);
    EXPECT_TRUE(
        torch::equal(torch::autograd::grad({y}, {c.x}, {far.narrow(2, 2, 37)})[0], plain[1]));
    c.x = wider.narrow(2, 1, 37).transpose(1, 2).contiguous().transpose(1, 2);
    EXPECT_TRUE(torch::equal(c.run(), plain[0])) << "columns side by side";
  }
}

TEST_P(Conv, AcceptsExpandedGradients) {
  auto c = random_conv({140, 2}, {}, 4);
  const auto ones = everything_of_conv(c, torch::ones_like(c.x));
  c.x.requires_grad_();
  c.run().sum().backward();  // an expanded gradient: all its strides are zero
  EXPECT_TRUE(torch::equal(c.x.grad(), ones[1]));
}

TEST_P(Conv, GivesTheSameBitsForAnyThreadsAndAnyBatch) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const auto c = random_conv({300, 7, 129}, {.C = 70, .K = 7, .silu = 33}, 5).to(type);
    const auto dy = torch::randn_like(c.x);
    const auto one = test::same_for_any_threads([&] { return everything_of_conv(c, dy); });

    ConvCase alone = c;
    alone.offsets = {0, 129};
    alone.x = c.x.narrow(1, 307, 129);
    const auto single = everything_of_conv(alone, dy.narrow(1, 307, 129));
    for (const int i : {0, 1})
      EXPECT_TRUE(torch::equal(single[i], one[i].narrow(1, 307, 129))) << i;
  }
}

TEST_P(Conv, ANanStaysInItsSequence) {
  auto c = random_conv({133, 140, 40}, {.C = 20, .silu = 17}, 6);
  const auto dy = torch::randn_like(c.x);
  const auto clean = everything_of_conv(c, dy);
  c.x.select(1, 200).fill_(NAN);
  const auto dirty = everything_of_conv(c, dy);
  for (const int i : {0, 1})
    for (const auto& [begin, L] : {std::pair{0, 133}, {273, 40}})
      EXPECT_TRUE(torch::equal(dirty[i].narrow(1, begin, L), clean[i].narrow(1, begin, L))) << i;
  // All outputs that read it are NaN, with or without SiLU: 199 .. 202 for K = 4.
  EXPECT_TRUE(torch::isnan(dirty[0].narrow(1, 199, 4)).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(dirty[0].narrow(1, 133, 66)).all().item<bool>());
}

TEST_P(Conv, SiluTakesLargeValues) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    ConvCase c;
    c.x =
        torch::tensor({-3e38, -1e30, -1e4, -120., -90., -80., 0., 80., 1e4, 3e38}, torch::kFloat64)
            .view({1, 10, 1});
    c.weight = torch::ones({1, 1, 1}, torch::kFloat64);
    c.offsets = {0, 10};
    c.silu = 1;
    const auto y = everything_of_conv(c.to(type), torch::ones_like(c.x).to(type));
    const auto zero = torch::zeros({7}, torch::kFloat64);
    EXPECT_TRUE(
        torch::allclose(y[0].flatten().narrow(0, 0, 7).to(torch::kFloat64), zero, 0, 1e-30));
    EXPECT_TRUE(
        torch::equal(y[0].flatten().narrow(0, 7, 3), c.x.to(type).flatten().narrow(0, 7, 3)));
    EXPECT_TRUE(torch::allclose(y[1].flatten().narrow(0, 0, 6).to(torch::kFloat64),
                                zero.narrow(0, 0, 6), 0, 1e-30));
    EXPECT_EQ(y[1].flatten()[6].item<double>(), 0.5);
    EXPECT_TRUE(torch::equal(y[1].flatten().narrow(0, 7, 3), torch::ones({3}, type)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Conv, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(ConvGradients, AreComputedOnlyForInputsThatNeedThem) {
  auto c = random_conv({140, 2}, {}, 7);
  const auto dy = torch::randn_like(c.x);
  const auto all = everything_of_conv(c, dy);
  for (std::size_t i = 0; i < 3; ++i) {
    auto one = c;
    for (auto& [name, t] : one.inputs()) *t = t->detach().clone();
    auto* leaf = one.inputs()[i].second;
    leaf->requires_grad_();
    one.run().backward(dy);
    EXPECT_TRUE(torch::equal(leaf->grad(), all[i + 1])) << one.inputs()[i].first;
  }
}

TEST(ConvGradients, SecondOnesAndChangedInputsAreRefused) {
  auto c = random_conv({9}, {}, 8);
  c.x.requires_grad_();
  EXPECT_THROW_WITH(torch::autograd::grad({c.run().sum()}, {c.x}, {}, {}, /*create_graph=*/true),
                    Error, "convolution: has no second derivative");
  c.x.detach_();
  c.weight.requires_grad_();
  const auto y = c.run();
  c.x.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error) << "x is needed as it was";
}

TEST(ConvErrors, BadShapesTypesAndLayoutsAreNamed) {
  const auto c = random_conv({8, 4}, {}, 9);
  auto bad = c;
  bad.x = c.x[0];
  EXPECT_THROW_WITH(bad.run(), Error,
                    "expected x (B, L, C), weight (C, 1, K) and bias (C); got [12, 5]");
  bad.x = Tensor();
  EXPECT_THROW_WITH(bad.run(), Error, "got undefined");
  bad = c;
  bad.weight = c.weight.narrow(0, 0, 4);
  EXPECT_THROW_WITH(bad.run(), Error, "got [1, 12, 5], [4, 1, 4] and [5]");
  bad.weight = c.weight.narrow(2, 0, 0);
  EXPECT_THROW_WITH(bad.run(), Error, "[5, 1, 0]");
  bad = c;
  bad.bias = c.bias.narrow(0, 0, 4);
  EXPECT_THROW_WITH(bad.run(), Error, "and [4]");
  bad = c;
  bad.x = c.x.to(torch::kFloat32);
  EXPECT_THROW_WITH(bad.run(), Error, "weight and bias must be Float on cpu");
  bad.x = c.x.to(torch::kInt64);
  EXPECT_THROW_WITH(bad.run(), Error, "x must be float32, float64 or bfloat16");
  bad = c;
  bad.silu = 6;
  EXPECT_THROW_WITH(bad.run(), Error, "SiLU for 6 of 5 channels");
  bad = c;
  bad.offsets = {0, 11};
  EXPECT_THROW_WITH(bad.run(), Error, "the layout describes (B, L) = (1, 11)");
  auto mask = torch::ones({1, 12}, torch::kBool);
  mask[0][11].fill_(0);
  EXPECT_THROW_WITH(depthwise_conv_silu(c.x, c.weight, c.bias, false, 3, Layout::padded(mask)),
                    Error, "offsets must rise from 0 to the 12 tokens");
}

}  // namespace
}  // namespace hydramix
