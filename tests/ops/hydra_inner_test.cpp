// SPDX-License-Identifier: Apache-2.0
// The fused operation against its parts one by one, which have tests of their own: the same bits on
// the CPU, outputs and all gradients.
#include "ops/hydra_inner.h"

#include <gtest/gtest.h>

#include "hydramix/error.h"
#include "hydramix/layout.h"
#include "ops/depthwise_conv.h"
#include "ops/narrow_linear.h"
#include "ops/norm.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using torch::Tensor;

struct HydraCase {
  HydraShape shape;
  Sequences sequences;
  Tensor w;
  HydraWeights weights;

  HydraCase(HydraShape s, const std::vector<int64_t>& offsets, int64_t K, bool bias,
            torch::ScalarType type)
      : shape(s), sequences(offsets) {
    torch::manual_seed(5);
    const auto make = [&](std::vector<int64_t> size, double scale = 1) {
      return (scale * torch::randn(size, type)).requires_grad_();
    };
    shape.centre = K / 2;
    shape.eps = 1e-5;
    w = make({offsets.back(), s.columns()});
    weights.conv_weight = make({s.convolved(), 1, K}, 0.5);
    if (bias) weights.conv_bias = make({s.convolved()}, 0.1);
    weights.dt_bias = make({s.H});
    weights.A = (-torch::rand({s.H}, type) - 0.1).requires_grad_();
    weights.D = make({s.H});
    weights.fc_D = make({s.H, s.inner()}, 0.1);
    weights.norm = make({s.inner()});
  }

  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all{w,         weights.conv_weight, weights.dt_bias, weights.A,
                            weights.D, weights.fc_D,        weights.norm};
    if (weights.conv_bias.defined()) all.push_back(weights.conv_bias);
    return all;
  }

  Tensor fused() const { return hydra_inner(w, weights, shape, sequences); }

  Tensor one_by_one() const {
    const auto& s = shape;
    const int64_t n = w.size(0), GN = s.G * s.N;
    const auto parts = w.split_with_sizes({s.inner(), s.convolved(), s.H, s.H}, 1);
    const auto conv =
        depthwise_conv_silu(parts[1].unsqueeze(0), weights.conv_weight, weights.conv_bias,
                            /*causal=*/false, s.convolved(), Layout::packed(sequences))
            .squeeze(0);
    const auto v = conv.split_with_sizes({s.inner(), GN, GN, GN, GN}, 1);
    const auto delta = narrow_linear(v[0], weights.fc_D, weights.D);
    const auto group = [&](const Tensor& t) { return t.view({n, s.G, s.N}); };
    const auto y = packed_scan(v[0].view({n, s.H, s.P}),
                               {parts[2], group(v[1].contiguous()), group(v[2].contiguous())},
                               {parts[3], group(v[3].contiguous()), group(v[4].contiguous())},
                               weights.dt_bias, weights.A, delta, sequences, s.scan);
    return gated_rms_norm(y.flatten(1), parts[0], weights.norm, s.eps);
  }
};

void expect_same_bits(const HydraCase& c, const std::string& what) {
  SCOPED_TRACE(what);
  const auto fused = c.fused(), parts = c.one_by_one();
  EXPECT_TRUE(torch::equal(fused, parts));
  const auto dout = torch::randn_like(parts);
  const auto got = torch::autograd::grad({fused}, c.leaves(), {dout});
  const auto want = torch::autograd::grad({parts}, c.leaves(), {dout});
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(torch::equal(got[i], want[i])) << "gradient " << i << " " << want[i].sizes();
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(c.fused(), parts)) << "without gradients";
}

TEST(HydraInner, HasTheBitsOfItsParts) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    expect_same_bits({{4, 8, 2, 5, 0, 0, {}}, {0, 1, 70, 203}, 7, true, type}, "groups, packed");
    expect_same_bits({{3, 5, 1, 16, 0, 0, {}}, {0, 129}, 4, false, type}, "odd sizes, no bias");
    HydraShape limited{2, 4, 1, 3, 0, 0, {}};
    limited.scan = {.tile = 7, .dt_low = 0.2, .dt_high = 0.9};
    expect_same_bits({limited, {0, 33, 50}, 1, true, type}, "limits, short chunks");
  }
}

TEST(HydraInner, TakesNoTokensAndStridedRows) {
  const HydraCase none({2, 4, 1, 3, 0, 0, {}}, {0}, 3, true, torch::kFloat32);
  EXPECT_EQ(none.fused().sizes(), (std::vector<int64_t>{0, 8}));
  const HydraCase c({2, 4, 1, 3, 0, 0, {}}, {0, 20}, 3, true, torch::kFloat32);
  const torch::NoGradGuard no_grad;
  auto wide = torch::full({20, c.w.size(1) + 9}, std::nan(""), c.w.options());
  auto columns = wide.narrow(1, 4, c.w.size(1));
  columns.copy_(c.w);
  EXPECT_TRUE(torch::equal(hydra_inner(columns, c.weights, c.shape, c.sequences), c.fused()));
}

TEST(HydraInner, BadSizesAreNamed) {
  const HydraCase c({2, 4, 1, 3, 0, 0, {}}, {0, 20}, 3, true, torch::kFloat32);
  EXPECT_THROW_WITH(hydra_inner(c.w.narrow(1, 0, 5), c.weights, c.shape, c.sequences), Error,
                    "hydra: w must be (n, 32); got [20, 5]");
  EXPECT_THROW_WITH(hydra_inner(c.w, c.weights, c.shape, Sequences({0, 19})), Error,
                    "hydra: offsets must rise from 0 to the 20 tokens");
}

}  // namespace
}  // namespace hydramix
