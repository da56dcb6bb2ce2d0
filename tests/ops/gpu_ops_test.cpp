// SPDX-License-Identifier: Apache-2.0
// The operations with GPU kernels, except the scan, through LibTorch: outputs, gradients, strided
// tensors, determinism.
#include <cmath>
#include <limits>
#include <tuple>

#include "ops/attention.h"
#include "ops/complex_scan.h"
#include "ops/depthwise_conv.h"
#include "ops/embedding.h"
#include "ops/linear_cross_entropy.h"
#include "ops/norm.h"
#include "ops/projection.h"
#include "support/gpu.h"

namespace hydramix {
namespace {

using test::described;
using test::expect_exact;
using test::expect_exact_in_both;
using test::kGpu;
using test::Memory;
using test::normal;
using test::offsets_of;
using test::Operation;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr auto kBf16 = torch::kBFloat16;
constexpr auto kFloat = torch::kFloat32;

class GpuConvolution : public test::OnGpu {};
class GpuComplexScan : public test::OnGpu {};
class GpuNorm : public test::OnGpu {};
class GpuProjection : public test::OnGpu {};
class GpuCrossEntropy : public test::OnGpu {};
class GpuEmbedding : public test::OnGpu {};
class GpuAttention : public test::OnGpu {};

// The convolution

struct ConvSizes {
  std::vector<int64_t> lengths;
  int64_t C, K, silu;
  bool causal = false, bias = true;
};

Operation convolution(const ConvSizes& z) {
  torch::manual_seed(4);
  const auto offsets = offsets_of(z.lengths);
  const auto layout = Layout::packed(torch::tensor(offsets));
  const auto bias = [z](const Tensors& in) { return z.bias ? in[2] : Tensor(); };
  Operation op;
  op.inputs = {{"x", normal({offsets.back(), z.C})}, {"weight", normal({z.C, 1, z.K}, 0.5), false}};
  if (z.bias) op.inputs.push_back({"bias", normal({z.C}), false});
  op.run = [=](const Tensors& in) {
    return depthwise_conv_silu(in[0].unsqueeze(0), in[1], bias(in), z.causal, z.silu, layout)
        .squeeze(0);
  };
  op.naive = [=](const Tensors& in) {
    const auto type = in[0].scalar_type();
    Tensors each;
    for (std::size_t s = 0; s < z.lengths.size(); ++s) {
      const auto x = in[0].narrow(0, offsets[s], z.lengths[s]).unsqueeze(0);
      const auto u =
          depthwise_conv_ref(x, in[1].to(type), z.bias ? in[2].to(type) : Tensor(), z.causal)
              .squeeze(0);
      each.push_back(
          torch::cat({torch::silu(u.narrow(1, 0, z.silu)), u.narrow(1, z.silu, z.C - z.silu)}, 1));
    }
    return torch::cat(each);
  };
  return op;
}

TEST_F(GpuConvolution, AwkwardLengthsAndWidths) {
  for (const int64_t K : {1, 2, 4, 7, 9})
    for (const bool causal : {false, true}) {
      const auto what = described({K, causal});
      expect_exact_in_both(convolution({{1}, 37, K, 37, causal}), what + ": a token");
      expect_exact_in_both(convolution({{127, 128, 129, 2, 1, 3}, 72, K, 72, causal}), what);
    }
}

TEST_F(GpuConvolution, AwkwardChannels) {
  for (const int64_t C : {1, 3, 8, 101, 264, 1000})
    for (const int64_t silu : {int64_t{0}, C / 2, C})
      expect_exact_in_both(convolution({{211, 5}, C, 7, silu, false, C != 8}),
                           described({C, silu}));
}

TEST_F(GpuConvolution, ColumnsOfWiderTensors) {
  for (const auto memory : {Memory::kColumns, Memory::kMisaligned})
    expect_exact_in_both(convolution({{131, 40}, 96, 7, 64}), "columns", memory);
}

// The complex recurrence

Operation complex_recurrence(const std::vector<int64_t>& lengths, int64_t C) {
  torch::manual_seed(9);
  const auto offsets = offsets_of(lengths);
  const auto size = torch::rand({C}, torch::kFloat64).sqrt();
  const auto angle = 2 * M_PI * torch::rand({C}, torch::kFloat64);
  Operation op;
  op.inputs = {{"x", normal({offsets.back(), C})},
               {"re", size * angle.cos(), false},
               {"im", size * angle.sin(), false}};
  op.run = [offsets](const Tensors& in) {
    return complex_scan(in[0], in[1].to(torch::kFloat64), in[2].to(torch::kFloat64),
                        Sequences(offsets));
  };
  op.naive = [offsets](const Tensors& in) {
    const auto re = in[1].to(in[0].scalar_type()), im = in[2].to(in[0].scalar_type());
    Tensors y;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      auto h_re = torch::zeros_like(re), h_im = h_re;
      for (int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
        const auto next = re * h_re - im * h_im + in[0][t];
        h_im = re * h_im + im * h_re;
        h_re = next;
        y.push_back(torch::stack({h_re, h_im}));
      }
    }
    return torch::stack(y);
  };
  return op;
}

TEST_F(GpuComplexScan, AwkwardLengthsAndChannels) {
  for (const int64_t L : {1, 2, 5, 64, 65, 130})
    expect_exact_in_both(complex_recurrence({L}, 66), described({L}));
  for (const int64_t C : {1, 2, 7, 64, 129, 258})
    expect_exact_in_both(complex_recurrence({40, 1, 0, 70}, C), described({C}));
  expect_exact(complex_recurrence({5000, 3000}, 70), kFloat, "long sequences");
}

TEST_F(GpuComplexScan, ColumnsOfWiderTensors) {
  for (const auto memory : {Memory::kColumns, Memory::kMisaligned})
    expect_exact_in_both(complex_recurrence({60, 41}, 96), "columns", memory);
}

// Norms

Operation gated_norm(std::vector<int64_t> shape, int64_t Z) {
  torch::manual_seed(5);
  auto gates = shape;
  gates.back() = Z;
  Operation op;
  op.inputs = {{"y", normal(shape)},
               {"z", normal(gates)},
               {"weight", 1 + normal({shape.back()}, 0.2), false}};
  op.run = [](const Tensors& in) { return gated_rms_norm(in[0], in[1], in[2], 1e-5); };
  op.naive = [](const Tensors& in) {
    return gated_rms_norm_ref(in[0], in[1], in[2].to(in[0].scalar_type()), 1e-5);
  };
  return op;
}

Operation residual_norm(const std::vector<int64_t>& shape, bool two) {
  torch::manual_seed(6);
  const int64_t C = shape.back();
  Operation op;
  op.inputs = {{"weight", 1 + normal({C}, 0.2), false},
               {"bias", normal({C}), false},
               {"a", normal(shape) + 0.5}};
  if (two) op.inputs.push_back({"b", normal(shape)});
  op.run = [two](const Tensors& in) {
    return two ? add_layer_norm(in[2], in[3], in[0], in[1], 1e-5)
               : layer_norm(in[2], in[0], in[1], 1e-5);
  };
  op.naive = [two, C](const Tensors& in) {
    const auto type = in[2].scalar_type();
    return torch::layer_norm(two ? in[2] + in[3] : in[2], {C}, in[0].to(type), in[1].to(type),
                             1e-5);
  };
  return op;
}

TEST_F(GpuNorm, AwkwardShapes) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1, 64}, {127, 5}, {129, 96}, {31, 1531}, {128, 1536}, {3, 5, 24}, {2, 4096}}) {
    expect_exact_in_both(gated_norm(shape, shape.back()), "gated " + described(shape));
    for (const bool two : {false, true})
      expect_exact_in_both(residual_norm(shape, two), (two ? "sum " : "layer ") + described(shape));
  }
}

TEST_F(GpuNorm, AGateForSeveralChannels) {
  expect_exact_in_both(gated_norm({67, 96}, 48), "wide");
  expect_exact_in_both(gated_norm({67, 35}, 7), "odd");
}

TEST_F(GpuNorm, ColumnsOfWiderTensors) {
  for (const auto memory : {Memory::kColumns, Memory::kMisaligned}) {
    expect_exact_in_both(gated_norm({67, 96}, 96), "gated", memory);
    expect_exact_in_both(residual_norm({67, 96}, true), "sum", memory);
    expect_exact_in_both(residual_norm({67, 96}, false), "layer", memory);
  }
}

// Products

Operation projection(std::vector<int64_t> shape, int64_t out, bool bias, bool stored_weight) {
  torch::manual_seed(7);
  const int64_t in_width = shape.back();
  Operation op;
  op.inputs = {{"x", normal(shape)}, {"weight", normal({out, in_width}, 0.1), stored_weight}};
  if (bias) op.inputs.push_back({"bias", normal({out}), stored_weight});
  op.run = [bias](const Tensors& in) { return project(in[0], in[1], bias ? in[2] : Tensor()); };
  op.naive = [bias](const Tensors& in) {
    return torch::linear(in[0].to(kBf16), in[1].to(kBf16), bias ? in[2].to(kBf16) : Tensor());
  };
  return op;
}

TEST_F(GpuProjection, AwkwardShapes) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1, 64}, {127, 37}, {129, 128}, {3, 43, 96}})
    for (const int64_t out : {1, 101, 128})
      for (const bool bias : {false, true})
        expect_exact_in_both(projection(shape, out, bias, false), described(shape));
  expect_exact(projection({129, 128}, 96, true, true), kBf16, "a bfloat16 weight");
}

TEST_F(GpuProjection, ColumnsOfWiderTensors) {
  for (const auto memory : {Memory::kColumns, Memory::kMisaligned})
    expect_exact_in_both(projection({67, 96}, 40, true, false), "columns", memory);
}

TEST_F(GpuProjection, IsBfloat16OnRequest) {
  auto op = projection({129, 128}, 96, true, false);
  op.in_bfloat16 = true;
  op.run = [](const Tensors& in) { return project(in[0], in[1], in[2], RoundedCopy(), kBf16); };
  expect_exact(op, kFloat, "float32 around bfloat16");
}

// The head

Operation cross_entropy(int64_t m, int64_t d, int64_t V, bool some_do_not_count,
                        std::optional<torch::ScalarType> type = {}) {
  torch::manual_seed(8);
  auto targets = torch::randint(V, {m}, torch::kInt64);
  if (some_do_not_count) targets.masked_fill_(torch::arange(m) % 5 == 2, -1);
  const auto counted = (targets >= 0).nonzero().squeeze(1);
  const auto wanted = targets.index_select(0, counted);
  Operation op;
  op.inputs = {{"x", normal({m, d})},
               {"weight", normal({V, d}, 2 / std::sqrt(static_cast<double>(d))), false},
               {"bias", normal({V}), false}};
  op.run = [=](const Tensors& in) {
    return linear_cross_entropy(in[0], in[1], in[2], targets.to(in[0].device()), 64, RoundedCopy(),
                                type.value_or(in[0].scalar_type()))
        .sum;
  };
  op.exact = [=](const Tensors& in) {
    return linear_cross_entropy(in[0].index_select(0, counted), in[1], in[2], wanted, 64).sum;
  };
  op.naive = [=](const Tensors& in) {
    const auto rows = in[0].to(kBf16).index_select(0, counted.to(kGpu));
    const auto z = torch::linear(rows, in[1].to(kBf16), in[2].to(kBf16));
    return -z.log_softmax(1).gather(1, wanted.to(kGpu).unsqueeze(1)).sum();
  };
  return op;
}

TEST_F(GpuCrossEntropy, AwkwardShapes) {
  for (const auto& [m, d, V] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 16, 37}, {127, 37, 101}, {129, 64, 1024}, {200, 32, 30522}, {16384 + 129, 8, 50}})
    expect_exact_in_both(cross_entropy(m, d, V, false), described({m, d, V}));
}

TEST_F(GpuCrossEntropy, TargetsBelowZeroAreIgnored) {
  for (const int64_t m : {3, 129, 16384 + 129})
    expect_exact(cross_entropy(m, 24, 101, true), kBf16, described({m}));
  auto op = cross_entropy(129, 24, 101, true);
  op.in_bfloat16 = true;
  op.run = cross_entropy(129, 24, 101, true, kBf16).run;
  expect_exact(op, kFloat, "float32 around bfloat16");
}

TEST_F(GpuCrossEntropy, ColumnsOfWiderTensors) {
  for (const auto memory : {Memory::kColumns, Memory::kMisaligned})
    expect_exact_in_both(cross_entropy(67, 24, 101, false), "columns", memory);
}

TEST_F(GpuCrossEntropy, CountsCorrectPredictions) {
  torch::manual_seed(9);
  const int64_t m = 300, V = 1009;
  const auto weight = torch::randn({V, 64});
  const auto winner = torch::randint(V - 1, {m}, torch::kInt64), row = torch::arange(m);
  auto targets = torch::where(row % 3 == 0, winner, winner + 1);
  targets.masked_fill_(row % 7 == 0, -1);
  const auto x = weight.index_select(0, winner);  // nearest to itself by far
  for (const auto type : {kBf16, kFloat}) {
    const auto all = type == kBf16 ? targets : targets.clamp_min(0);
    const auto result = linear_cross_entropy(x.to(type).to(kGpu), weight.to(kGpu),
                                             torch::zeros({V}).to(kGpu), all.to(kGpu), 64);
    EXPECT_EQ(result.correct.item<int64_t>(), (winner == all).sum().item<int64_t>());
  }
}

// The embedding

TEST_F(GpuEmbedding, AwkwardShapes) {
  for (const auto& [n, V, C] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1}, {127, 3, 37}, {4001, 101, 64}, {2000, 30522, 96}})
    for (const auto memory : {Memory::kDense, Memory::kColumns}) {
      torch::manual_seed(10);
      // A few ids occur often.
      const auto ids = (torch::rand({2, n}).pow(4) * static_cast<double>(V)).to(torch::kInt64);
      Operation op;
      op.inputs = {{"table", normal({V, C})}};
      op.run = [ids = ids](const Tensors& in) {
        return hydramix::embedding(in[0], ids.to(in[0].device()));
      };
      expect_exact(op, kFloat, described({n, V, C}), memory);
    }
}

// Attention, in bfloat16 by LibTorch's kernels

struct AttentionSizes {
  int64_t S, H, L, d, P;
  bool shared = false, padded = false, causal = false;
};

Operation attention(const AttentionSizes& z) {
  torch::manual_seed(9);
  const int64_t rows = z.shared ? 1 : z.S;
  const auto valid = [z](const Tensor& x) {
    if (!z.padded) return Tensor();
    const auto ends = torch::arange(z.S).remainder(z.L) + 1;  // 1, 2, ... keys
    return (torch::arange(z.L).unsqueeze(0) < ends.unsqueeze(1)).to(x.device());
  };
  Operation op;
  op.inputs = {{"q", normal({rows, z.H, z.L, z.d})},
               {"k", normal({rows, z.H, z.L, z.d})},
               {"x", normal({z.S, z.L, z.H, z.P})}};
  op.run = [=](const Tensors& in) {
    return z.causal ? causal_softmax_attention(in[0], in[1], in[2])
                    : softmax_attention(in[0], in[1], in[2], valid(in[2]));
  };
  op.naive = [=](const Tensors& in) {
    auto logits = torch::matmul(in[0], in[1].transpose(2, 3)) / std::sqrt(static_cast<double>(z.d));
    const auto keys = valid(in[2]);
    if (keys.defined())
      logits = logits.masked_fill(~keys.unsqueeze(1).unsqueeze(2),
                                  -std::numeric_limits<double>::infinity());
    if (z.causal)
      logits = logits.masked_fill(torch::ones_like(logits[0][0], torch::kBool).triu(1),
                                  -std::numeric_limits<double>::infinity());
    return torch::matmul(logits.softmax(-1), in[2].permute({0, 2, 1, 3})).permute({0, 2, 1, 3});
  };
  return op;
}

TEST_F(GpuAttention, AwkwardSizes) {
  for (const std::string kind : {"plain", "padded", "causal"})
    for (const bool shared : {false, true})
      for (const AttentionSizes& z : {AttentionSizes{2, 2, 1, 16, 64},
                                      {3, 2, 127, 16, 64},
                                      {2, 3, 129, 64, 64},
                                      {2, 1, 257, 80, 64},
                                      {5, 2, 61, 13, 7}}) {
        auto sizes = z;
        sizes.padded = kind == "padded";
        sizes.causal = kind == "causal";
        sizes.shared = shared;
        expect_exact_in_both(attention(sizes),
                             kind + ", S, H, L, d, P: " + described({z.S, z.H, z.L, z.d, z.P}) +
                                 (shared ? ", shared" : ""));
      }
}

// Long enough for many blocks of keys; a GPU could add their sums in any order.
TEST_F(GpuAttention, TheSameBitsEveryTime) {
  for (const std::string kind : {"plain", "padded", "causal"}) {
    torch::manual_seed(10);
    const auto options = torch::TensorOptions().device(kGpu);
    const auto leaf = [&](std::vector<int64_t> shape) {
      return torch::randn(shape, options).to(kBf16).requires_grad_();
    };
    const Tensors in{leaf({8, 12, 2048, 64}), leaf({8, 12, 2048, 64}), leaf({8, 2048, 12, 64})};
    const auto dy = torch::randn({8, 2048, 12, 64}, options).to(kBf16);
    const auto valid = kind == "padded" ? torch::rand({8, 2048}, options) < 0.9 : Tensor();
    const auto gradients = [&] {
      const auto y = kind == "causal" ? causal_softmax_attention(in[0], in[1], in[2])
                                      : softmax_attention(in[0], in[1], in[2], valid);
      return torch::autograd::grad({y}, in, {dy});
    };
    const auto first = gradients();
    for (int run = 0; run < 10; ++run) {
      const auto again = gradients();
      for (std::size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(torch::equal(again[i], first[i]));
    }
    EXPECT_FALSE(at::globalContext().deterministicAlgorithms());  // as it was before
  }
}

}  // namespace
}  // namespace hydramix
