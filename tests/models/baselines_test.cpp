// SPDX-License-Identifier: Apache-2.0
// The models that the paper compares with are configurations. Each is compared with its formula,
// written with LibTorch's own functions.
#include <functional>

#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "ops/dropout.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using torch::Tensor;

BertOptions baseline(const std::string& style, const std::string& mixer) {
  BertOptions options;
  options.vocab = 20;
  options.layers = 2;
  options.positions = 12;
  options.mlp = {.kind = "gelu", .width = 24};
  options.block.style = style;
  options.block.mixer = mixer;
  options.block.d_model = 8;
  options.block.expand = 1;
  options.block.headdim = 4;
  options.block.d_conv = 3;
  options.block.bias = true;
  options.block.mixer_options = {.qk_dim = 4, .max_length = 12};
  return options;
}

BertForMaskedLM disturbed(const BertOptions& options) {
  torch::manual_seed(21);
  BertForMaskedLM model(options);
  model->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& p : model->parameters()) p.add_(0.3 * torch::randn_like(p));
  return model;
}

using Weights = std::map<std::string, Tensor>;

Tensor norm(const Weights& w, const std::string& name, const Tensor& x, double eps) {
  return torch::layer_norm(x, {x.size(-1)}, w.at(name + ".weight"), w.at(name + ".bias"), eps);
}
Tensor linear(const Weights& w, const std::string& name, const Tensor& x) {
  return torch::linear(x, w.at(name + ".weight"), w.at(name + ".bias"));
}

// The encoder with `mix(layer's prefix, x)` for its mixing layers; ids (L) -> (L, d_model).
Tensor written_out(const Weights& w, const Tensor& ids,
                   const std::function<Tensor(const std::string&, const Tensor&)>& mix) {
  auto x = w.at("bert.embeddings.word_embeddings.weight").index_select(0, ids) +
           w.at("bert.embeddings.token_type_embeddings.weight")[0] +
           w.at("bert.embeddings.position_embeddings.weight").narrow(0, 0, ids.size(0));
  x = norm(w, "bert.embeddings.LayerNorm", x, 1e-12);
  for (const std::string i : {"0", "1"}) {
    const auto layer = "bert.encoder.layer." + i + ".";
    x = norm(w, layer + "layer.norm", x + mix(layer + "layer.mixer.", x), 1e-5);
    const auto mlp = linear(w, layer + "mlp.wo", torch::gelu(linear(w, layer + "mlp.wi", x)));
    x = norm(w, layer + "mlp_norm", x + mlp, 1e-5);
  }
  return x;
}

TEST(Baselines, BertIsAPlainBlockWithAttention) {
  const auto model = disturbed(baseline("plain", "attention"));
  const auto w = named_weights(*model);
  const auto ids = torch::randint(20, {9}, torch::kInt64);
  const auto expected = written_out(w, ids, [&](const std::string& mixer, const Tensor& x) {
    // Values, queries and keys of two heads of four channels.
    const auto vqk = linear(w, mixer + "in_proj", x).view({9, 3, 2, 4}).permute({1, 2, 0, 3});
    const auto weights = torch::softmax(vqk[1].matmul(vqk[2].transpose(1, 2)) / 2.0, -1);
    return linear(w, mixer + "out_proj", weights.matmul(vqk[0]).transpose(0, 1).reshape({9, 8}));
  });
  expect_close(model->encode(ids.unsqueeze(0), {})[0], expected, 1e-12, "BERT");
}

TEST(Baselines, FNetMixesByTheFourierTransformAlone) {
  auto options = baseline("bare", "fnet");
  options.block.headdim = 8;
  const auto model = disturbed(options);
  const auto w = named_weights(*model);
  const auto ids = torch::randint(20, {9}, torch::kInt64);
  const auto expected = written_out(w, ids, [&](const std::string&, const Tensor& x) {
    return torch::real(torch::fft::fft2(x.to(torch::kComplexDouble)));
  });
  expect_close(model->encode(ids.unsqueeze(0), {})[0], expected, 1e-12, "FNet");
  for (const auto& [name, weight] : w) EXPECT_EQ(name.find("_proj"), std::string::npos) << name;
}

TEST(Baselines, MlpMixerMixesByOneMatrixForAllChannels) {
  auto options = baseline("bare", "mlp_mixer");
  options.block.headdim = 8;
  options.block.mixer_options.token_hidden = 5;
  const auto model = disturbed(options);
  const auto w = named_weights(*model);
  const auto ids = torch::randint(20, {9}, torch::kInt64);
  const auto expected = written_out(w, ids, [&](const std::string& mixer, const Tensor& x) {
    const auto W1 = w.at(mixer + "matrix_mixer.W1").narrow(1, 0, 9);
    return w.at(mixer + "matrix_mixer.W2").narrow(0, 0, 9).matmul(torch::gelu(W1)).matmul(x);
  });
  expect_close(model->encode(ids.unsqueeze(0), {})[0], expected, 1e-12, "MLP-Mixer");
}

TEST(Baselines, M2IsALongConvolutionBetweenTwoGates) {
  for (const int64_t d_conv : {0, 3}) {
    auto options = baseline("gated", "monarch_conv");
    options.block.headdim = 1;
    options.block.d_conv = d_conv;
    const auto model = disturbed(options);
    const auto w = named_weights(*model);
    const auto ids = torch::randint(20, {9}, torch::kInt64);
    const auto expected = written_out(w, ids, [&](const std::string& mixer, const Tensor& x) {
      auto zgx = linear(w, mixer + "in_proj", x);  // (9, 24)
      if (d_conv > 0)
        zgx = torch::conv1d(zgx.t().unsqueeze(0), w.at(mixer + "conv1d.weight"),
                            w.at(mixer + "conv1d.bias"), /*stride=*/torch::IntArrayRef{1},
                            /*padding=*/torch::IntArrayRef{1},
                            /*dilation=*/torch::IntArrayRef{1}, /*groups=*/24)[0]
                  .t();
      const auto parts = zgx.chunk(3, 1);
      const auto inner = parts[1] * parts[2];
      // y[i, c] = inner[i, c] + sum_j kernel[c, i - j] inner[j, c], lag 0 at index 11.
      const auto& kernel = w.at(mixer + "matrix_mixer.kernel");
      const auto lag = torch::arange(9).unsqueeze(1) - torch::arange(9) + 11;
      const auto T = kernel.index_select(1, lag.flatten()).view({8, 9, 9});
      const auto y = inner + torch::einsum("cij,jc->ic", {T, inner});
      return linear(w, mixer + "out_proj", parts[0] * y);
    });
    expect_close(model->encode(ids.unsqueeze(0), {})[0], expected, 1e-12, concat("M2 ", d_conv));
  }
}

// y = D_{x2} T_1 D_{x1} v + T_2 u after a short convolution that looks back only.
TEST(Baselines, M2BertHasASecondConvolutionOfTheInputItself) {
  auto options = baseline("gated", "m2_conv");
  auto& block = options.block;
  block.headdim = 1;
  block.causal_conv = true;
  block.side_mixer = "m2_conv";
  block.mixer_options.filter_width = 6;
  block.mixer_options.filter_frequency = 1;
  const auto model = disturbed(options);
  const auto w = named_weights(*model);
  const auto matrix = [&](const std::string& prefix) {
    const auto mixer = make_mixer("m2_conv", {8, 1}, block.mixer_options);
    mixer->to(torch::kFloat64);
    Weights own;
    for (const auto& [name, weight] : w)
      if (name.starts_with(prefix)) own[name.substr(prefix.size())] = weight;
    load_weights(*mixer, own);
    return mixer->materialize(torch::zeros({1, 9, 0}, torch::kFloat64), 9)[0];  // (8, 9, 9)
  };
  const auto ids = torch::randint(20, {9}, torch::kInt64);
  const auto expected = written_out(w, ids, [&](const std::string& mixer, const Tensor& u) {
    const auto projected = linear(w, mixer + "in_proj", u);  // (9, 24)
    const auto& taps = w.at(mixer + "conv1d.weight");        // (24, 1, 3)
    auto conv = w.at(mixer + "conv1d.bias").expand({9, 24}).clone();
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t back = 0; back <= std::min<int64_t>(i, 2); ++back)
        conv[i] += taps.select(2, 2 - back).squeeze(1) * projected[i - back];
    const auto parts = conv.chunk(3, 1);
    const auto convolved = [&](const std::string& name, const Tensor& x) {
      return torch::einsum("cij,jc->ic", {matrix(mixer + name), x});
    };
    const auto y = parts[0] * convolved("matrix_mixer.", parts[1] * parts[2]);
    return linear(w, mixer + "out_proj", y + convolved("side_mixer.", u));
  });
  expect_close(model->encode(ids.unsqueeze(0), {})[0], expected, 1e-12, "M2-BERT");
}

TEST(Baselines, SideMixersThatDoNotFitAreExplained) {
  auto options = baseline("plain", "attention");
  options.block.side_mixer = "m2_conv";
  EXPECT_THROW_WITH(BertForMaskedLM{options}, UsageError, "Choose style gated");
  options = baseline("gated", "m2_conv");
  options.block.side_mixer = "attention";
  EXPECT_THROW_WITH(BertForMaskedLM{options}, UsageError, "must be a mixer without columns");
  options.block.side_mixer = "m2_conv";
  options.block.expand = 2;
  EXPECT_THROW_WITH(BertForMaskedLM{options}, UsageError, "expand = 1");
}

TEST(Baselines, PreNormAndDropoutAreTheirFormulas) {
  auto options = baseline("bare", "mlp_mixer");
  options.norm = "pre";
  options.dropout = 0.4;
  const auto model = disturbed(options);
  const auto w = named_weights(*model);
  const auto ids = torch::randint(20, {9}, torch::kInt64);
  auto x = w.at("bert.embeddings.word_embeddings.weight").index_select(0, ids) +
           w.at("bert.embeddings.token_type_embeddings.weight")[0] +
           w.at("bert.embeddings.position_embeddings.weight").narrow(0, 0, 9);
  const auto mask = keep_mask({5, torch::full({9}, 77, torch::kInt64), torch::arange(9)}, 8, 0.4);
  x = norm(w, "bert.embeddings.LayerNorm", x, 1e-12) * mask / 0.6;
  for (const std::string i : {"0", "1"}) {
    const auto layer = "bert.encoder.layer." + i + ".";
    const auto M = w.at(layer + "layer.mixer.matrix_mixer.M").narrow(0, 0, 9).narrow(1, 0, 9);
    x = x + M.matmul(norm(w, layer + "layer.norm", x, 1e-5));
    const auto h = torch::gelu(linear(w, layer + "mlp.wi", norm(w, layer + "mlp_norm", x, 1e-5)));
    x = x + linear(w, layer + "mlp.wo", h);
  }
  expect_close(model->encode(ids.unsqueeze(0), {}, {}, {5, torch::tensor({77})})[0],
               norm(w, "bert.encoder.norm", x, 1e-5), 1e-12, "pre-norm");
}

TEST(Baselines, BertDropsTheOutputsOfBothHalvesOfALayer) {
  auto options = baseline("bare", "mlp_mixer");
  options.output_dropout = 0.4;
  const auto model = disturbed(options);
  const auto w = named_weights(*model);
  const auto ids = torch::randint(20, {9}, torch::kInt64);
  const TokenNumbers tokens{5, torch::full({9}, 77, torch::kInt64), torch::arange(9)};
  int64_t output = 0;
  const auto dropped = [&](const Tensor& y) {
    return y * keep_output(tokens, output++, 8, 0.4) / 0.6;
  };
  auto x = w.at("bert.embeddings.word_embeddings.weight").index_select(0, ids) +
           w.at("bert.embeddings.token_type_embeddings.weight")[0] +
           w.at("bert.embeddings.position_embeddings.weight").narrow(0, 0, 9);
  x = norm(w, "bert.embeddings.LayerNorm", x, 1e-12);
  for (const std::string i : {"0", "1"}) {
    const auto layer = "bert.encoder.layer." + i + ".";
    const auto M = w.at(layer + "layer.mixer.matrix_mixer.M").narrow(0, 0, 9).narrow(1, 0, 9);
    x = norm(w, layer + "layer.norm", x + dropped(M.matmul(x)), 1e-5);
    const auto h = torch::gelu(linear(w, layer + "mlp.wi", x));
    x = norm(w, layer + "mlp_norm", x + dropped(linear(w, layer + "mlp.wo", h)), 1e-5);
  }
  expect_close(model->encode(ids.unsqueeze(0), {}, {}, {5, torch::tensor({77})})[0], x, 1e-12,
               "dropped outputs");
}

TEST(Baselines, M2DropsInnerChannelsAndHasNoBiasOnThem) {
  torch::manual_seed(23);
  MlpOptions options{.kind = "glu", .width = 12, .blocks = 3};
  options.input_bias = false;
  options.dropout = 0.4;
  Mlp mlp(6, options);
  mlp->to(torch::kFloat64);
  const auto w = mlp->named_parameters();
  EXPECT_FALSE(w.contains("wi.bias"));
  w["wo.bias"].detach().normal_();
  const auto x = torch::randn({1, 4, 6}, torch::kFloat64);
  std::vector<Tensor> hidden;
  for (int64_t b = 0; b < 3; ++b) {
    const auto both = x[0].narrow(1, 2 * b, 2).matmul(w["wi.weight"][b].t());
    hidden.push_back(torch::gelu(both.narrow(1, 0, 4)) * both.narrow(1, 4, 4));
  }
  const auto h = torch::stack(hidden, 2).flatten(1);
  const auto wo = torch::block_diag({w["wo.weight"][0], w["wo.weight"][1], w["wo.weight"][2]});
  const TokenNumbers tokens{5, torch::full({4}, 77, torch::kInt64), torch::arange(4)};
  const DropoutKey key{5, torch::tensor({77}), 3};
  const auto kept = h * keep_inner(tokens, 3, 12, 0.4) / 0.6;
  expect_close(mlp->forward(x, {}, key)[0], torch::linear(kept, wo, w["wo.bias"]), 1e-13,
               "dropped");
  EXPECT_THROW_WITH(mlp->forward(x), Error, "needs a number for each of the 1");
  mlp->eval();
  expect_close(mlp->forward(x)[0], torch::linear(h, wo, w["wo.bias"]), 1e-13, "evaluated");
}

TEST(Baselines, TheMlpsOfTwoLayersDropOtherChannels) {
  auto options = baseline("bare", "mlp_mixer");
  options.mlp.dropout = 0.4;
  const auto model = disturbed(options);
  const auto w = named_weights(*model);
  const auto ids = torch::randint(20, {9}, torch::kInt64);
  const TokenNumbers tokens{5, torch::full({9}, 77, torch::kInt64), torch::arange(9)};
  auto x = w.at("bert.embeddings.word_embeddings.weight").index_select(0, ids) +
           w.at("bert.embeddings.token_type_embeddings.weight")[0] +
           w.at("bert.embeddings.position_embeddings.weight").narrow(0, 0, 9);
  x = norm(w, "bert.embeddings.LayerNorm", x, 1e-12);
  for (const int64_t i : {0, 1}) {
    const auto layer = "bert.encoder.layer." + std::to_string(i) + ".";
    const auto M = w.at(layer + "layer.mixer.matrix_mixer.M").narrow(0, 0, 9).narrow(1, 0, 9);
    x = norm(w, layer + "layer.norm", x + M.matmul(x), 1e-5);
    const auto h = torch::gelu(linear(w, layer + "mlp.wi", x));
    const auto kept = h * keep_inner(tokens, i, 24, 0.4) / 0.6;
    x = norm(w, layer + "mlp_norm", x + linear(w, layer + "mlp.wo", kept), 1e-5);
  }
  expect_close(model->encode(ids.unsqueeze(0), {}, {}, {5, torch::tensor({77})})[0], x, 1e-12,
               "dropped inner channels");
}

TEST(Baselines, ABlockDiagonalMlpIsAMonarchMatrixOverItsNonlinearity) {
  torch::manual_seed(22);
  const MlpOptions options{.kind = "glu", .width = 12, .blocks = 3};
  Mlp mlp(6, options);
  mlp->to(torch::kFloat64);
  const auto w = mlp->named_parameters();
  const auto x = torch::randn({4, 6}, torch::kFloat64);
  std::vector<Tensor> hidden;
  for (int64_t b = 0; b < 3; ++b) {
    const auto both =
        x.narrow(1, 2 * b, 2).matmul(w["wi.weight"][b].t()) + w["wi.bias"].narrow(0, 8 * b, 8);
    hidden.push_back(torch::gelu(both.narrow(1, 0, 4)) * both.narrow(1, 4, 4));
  }
  // Channel k of block b becomes channel 3 k + b.
  const auto h = torch::stack(hidden, 2).flatten(1);
  const auto wo = torch::block_diag({w["wo.weight"][0], w["wo.weight"][1], w["wo.weight"][2]});
  expect_close(mlp->forward(x), torch::linear(h, wo, w["wo.bias"]), 1e-13, "Monarch MLP");
}

TEST(Baselines, PackedSequencesGiveWhatTheyGiveAlone) {
  for (const auto& [style, mixer] : {std::pair{"plain", "attention"},
                                     {"bare", "fnet"},
                                     {"bare", "mlp_mixer"},
                                     {"gated", "monarch_conv"},
                                     {"gated", "attention_dd"},
                                     {"plain", "hydra"}}) {
    const auto model = disturbed(baseline(style, mixer));
    const auto ids = torch::randint(20, {1, 20}, torch::kInt64);
    const auto packed = model->encode(ids, {}, Layout::packed(torch::tensor({0, 9, 10, 20})));
    for (const auto& [begin, L] : {std::pair{0, 9}, {9, 1}, {10, 10}})
      expect_close(packed.narrow(1, begin, L), model->encode(ids.narrow(1, begin, L), {}), 1e-12,
                   concat(style, " ", mixer));
  }
}

TEST(Baselines, GradientsAreThoseOfFiniteDifferences) {
  for (const auto& [style, mixer] :
       {std::pair{"plain", "attention"}, {"bare", "mlp_mixer"}, {"gated", "monarch_conv"}}) {
    const auto model = disturbed(baseline(style, mixer));
    const auto ids = torch::randint(20, {1, 8}, torch::kInt64);
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (const auto& [name, weight] : named_weights(*model))
      if (name.find("layer.0.") != std::string::npos) inputs.emplace_back(name, weight);
    test::expect_gradients(
        [&] {
          return model
              ->masked_loss(model->encode(ids, {}, Layout::packed(torch::tensor({0, 5, 8}))),
                            torch::tensor({1, 6}), torch::tensor({3, 4}))
              .sum;
        },
        inputs, concat(style, " ", mixer));
  }
}

TEST(Baselines, StylesThatDoNotFitTheMixerAreNamed) {
  EXPECT_THROW_WITH(BertForMaskedLM{baseline("bare", "attention")}, UsageError,
                    "style bare has no projections, but mixer 'attention' needs 16 columns");
  auto options = baseline("bare", "fnet");
  options.block.expand = 2;
  EXPECT_THROW_WITH(BertForMaskedLM{options}, UsageError, "d_inner = 16 becomes 16 channels");
  EXPECT_THROW_WITH(BertForMaskedLM{baseline("gated", "concat")}, UsageError,
                    "which style gated cannot gate");
  options = baseline("mamba", "hydra");
  options.block.d_conv = 0;
  EXPECT_THROW_WITH(BertForMaskedLM{options}, UsageError, "d_conv = 0, but style mamba");
}

}  // namespace
}  // namespace hydramix
