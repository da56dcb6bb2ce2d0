// SPDX-License-Identifier: Apache-2.0
#include "onnx/encoder.h"

#include "hydramix/error.h"

namespace hydramix::onnx {
namespace {

constexpr double kEmbeddingEps = 1e-12, kLayerEps = 1e-5;

// The token tables with positions of padding after the last, so that chunks fill all positions.
TokenInputs with_padding(const TokenInputs& inputs, const Value& length, const Value& padded) {
  Graph& g = *inputs.ids.graph;
  const auto pads = joined({g.ints({0, 0, 0}), padded - length});
  const auto pad = [&](const Value& table) {
    return table.graph == nullptr ? table : g.node("Pad", {table, pads});
  };
  return {pad(inputs.ids), pad(inputs.mask), pad(inputs.type_ids)};
}

Value norm_of(const Value& x, const Weights& weights, const std::string& prefix, double eps) {
  Graph& g = *x.graph;
  return layer_norm(x, g.weight(prefix + ".weight", weights.at(prefix + ".weight")),
                    g.weight(prefix + ".bias", weights.at(prefix + ".bias")), eps);
}

Value mlp(const Value& x, const MlpOptions& options, const Weights& weights,
          const std::string& prefix) {
  Graph& g = *x.graph;
  const auto h = linear(x, weights, prefix + "wi");
  if (options.kind == "gelu") return linear(gelu(h), weights, prefix + "wo");
  const auto width = g.ints({options.width});
  const auto a = slice(h, g.ints({0}), width, -1);
  const auto b = slice(h, width, g.ints({2 * options.width}), -1);
  return linear(gelu(a) * b, weights, prefix + "wo");
}

Value layer(const Value& x, const BertOptions& o, const Weights& weights, const std::string& prefix,
            const Batch& batch) {
  const bool pre = o.norm == "pre";
  // One half of the layer: the residual sum of x and of f(x), with its norm.
  const auto half = [&](const Value& input, const std::string& norm, const auto& f) {
    if (pre) return input + f(norm_of(input, weights, prefix + norm, kLayerEps));
    return norm_of(input + f(input), weights, prefix + norm, kLayerEps);
  };
  auto mixed = half(x, "layer.norm", [&](const Value& u) {
    return block(u, o.block, weights, prefix + "layer.mixer.", batch);
  });
  if (o.mlp.kind == "none") return mixed;
  return half(mixed, "mlp_norm",
              [&](const Value& u) { return mlp(u, o.mlp, weights, prefix + "mlp."); });
}

}  // namespace

void check_exportable(const BertOptions& options, const std::string& origin) {
  check_exportable(options.block, origin);
  HYDRAMIX_CHECK_USAGE(options.mlp.kind == "none" || options.mlp.blocks == 1, origin,
                       ": its MLP has ", options.mlp.blocks,
                       " diagonal blocks; MLPs of one block can be exported. Run this model with "
                       "hydramix.");
}

Encoded encode(const TokenInputs& given, const BertOptions& o, const Weights& weights) {
  Graph& g = *given.ids.graph;
  const std::string embeddings = "bert.embeddings.";
  g.set_scope("bert.embeddings");
  const auto table = [&](const std::string& name) {
    return g.weight(embeddings + name + ".weight", weights.at(embeddings + name + ".weight"));
  };
  const auto length = slice(g.node("Shape", {given.ids}), g.ints({1}), g.ints({2}), /*axis=*/0);
  Batch batch;
  auto inputs = given;
  if (is_scan(o.block.mixer)) {
    batch.tiling.emplace(g, length);
    inputs = with_padding(given, length, batch.tiling->padded_length());
  }
  // Any number but 0 marks a token.
  const auto is_token = g.node("Not", {g.node("Equal", {inputs.mask, g.integer(0)})});
  batch.mask = unsqueeze(as_float(is_token), {-1});

  const auto words = table("word_embeddings");
  const auto types = table("token_type_embeddings");
  auto e = gather(words, inputs.ids) +
           (inputs.type_ids.graph == nullptr ? types : gather(types, inputs.type_ids));
  if (o.positions > 0) {
    const auto count = cumulative(g.node("Cast", {is_token}, {{"to", int64_t{7}}}), {.axis = 1});
    // Before the first token this is -1, the last position, whose value is not used.
    e = e + gather(table("position_embeddings"), count - g.integer(1));
  }
  auto x = norm_of(e, weights, embeddings + "LayerNorm", kEmbeddingEps);
  for (int64_t i = 0; i < o.layers; ++i) {
    const auto prefix = "bert.encoder.layer." + std::to_string(i) + ".";
    g.set_scope("bert.encoder.layer." + std::to_string(i));
    x = layer(x, o, weights, prefix, batch);
  }
  g.set_scope("bert.encoder");
  if (o.norm == "pre") x = norm_of(x, weights, "bert.encoder.norm", kLayerEps);
  return {x, batch.mask, length, words};
}

}  // namespace hydramix::onnx
