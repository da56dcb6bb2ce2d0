// SPDX-License-Identifier: Apache-2.0
// At padding u is set to zero, so that the convolution sees the same as beyond the ends of a
// sequence. dt is set to zero too, so that scans pass over it. Each column group has a product of
// its own with its rows of in_proj, because splitting the weights costs nothing and splitting a
// result does.
#include "onnx/block.h"

#include <cmath>
#include <limits>

#include "hydramix/error.h"

namespace hydramix::onnx {
namespace {

constexpr float kGateEps = 1e-5F;

// Everything that the parts of one block read.
struct BlockExport {
  Graph& graph;
  const BlockOptions& options;
  const Weights& weights;
  const std::string prefix;
  const Batch& batch;
  Heads heads;
  std::shared_ptr<Mixer> mixer;  // for its columns; its weights are not used

  const torch::Tensor& at(const std::string& name) const { return weights.at(prefix + name); }
  bool has(const std::string& name) const { return weights.count(prefix + name) > 0; }
  // The mixer's weights are in the block itself where the published ones are.
  std::string mixer_name(const std::string& name) const {
    return (mixer->info().flat_weights ? "" : "matrix_mixer.") + name;
  }
  const torch::Tensor& of_mixer(const std::string& name) const { return at(mixer_name(name)); }
  Value stored(const std::string& name, const torch::Tensor& data) const {
    return graph.weight(prefix + name, data);
  }
};

// x W^T + bias with rows [begin, begin + width) of in_proj.
Value projected(const BlockExport& e, const Value& u, const std::string& name, int64_t begin,
                int64_t width) {
  const auto weight = e.at("in_proj.weight").narrow(0, begin, width);
  auto y = matmul(u, e.stored("in_proj.weight." + name, weight.t()));
  if (!e.has("in_proj.bias")) return y;
  return y + e.stored("in_proj.bias." + name, e.at("in_proj.bias").narrow(0, begin, width));
}

// Depthwise convolution of x (B, L', width) with channels [begin, begin + width) of conv1d.
Value convolved(const BlockExport& e, const Value& x, const std::string& name, int64_t begin,
                int64_t width) {
  const int64_t K = e.options.d_conv;
  const bool causal = e.options.causal_conv || e.mixer->info().causal;
  const int64_t centre = causal ? K - 1 : K / 2;
  // A bias of in_proj is not zero at padding.
  const auto tokens = e.has("in_proj.bias") ? x * e.batch.mask : x;
  std::vector<Value> inputs{
      transpose(tokens, {0, 2, 1}),
      e.stored("conv1d.weight." + name, e.at("conv1d.weight").narrow(0, begin, width))};
  if (e.has("conv1d.bias"))
    inputs.push_back(e.stored("conv1d.bias." + name, e.at("conv1d.bias").narrow(0, begin, width)));
  const auto y = e.graph.node(
      "Conv", inputs,
      {{"group", width}, {"kernel_shape", Ints{K}}, {"pads", Ints{centre, K - 1 - centre}}});
  return transpose(y, {0, 2, 1});
}

// The preprocessed input: x (B, L', d_inner), the mixer's columns by name, and z in style mamba.
struct Projected {
  Value z, x;
  std::map<std::string, Value> columns;
};

Projected preprocessed(const BlockExport& e, const Value& u) {
  const bool mamba = e.options.style == "mamba";
  const int64_t d_inner = e.heads.channels();
  int64_t at = 0;
  Projected p;
  if (mamba) {
    p.z = projected(e, u, "z", 0, d_inner);
    at = d_inner;
  }
  const auto next = [&](const Columns& columns) {
    auto value = projected(e, u, columns.name, at, columns.width);
    if (mamba && columns.conv)
      value = convolved(e, value, columns.name, at - d_inner, columns.width);
    at += columns.width;
    return mamba && columns.silu ? silu(value) : value;
  };
  p.x = next({"x", d_inner, true, true});
  for (const auto& columns : e.mixer->projection()) p.columns.emplace(columns.name, next(columns));
  return p;
}

ScanShape scan_shape(const BlockExport& e) {
  const auto& o = e.options.mixer_options;
  return {o.groups, e.heads.H / o.groups, e.heads.P, o.d_state};
}

// raw (B, L', H) -> dt (B, G, R, K, T, 1), zero at padding
Value step(const BlockExport& e, const Value& raw, const Value& dt_bias) {
  const auto& o = e.options.mixer_options;
  auto dt = softplus(raw + dt_bias);
  if (o.dt_limit_low > 0 || std::isfinite(o.dt_limit_high)) {
    const double largest = std::numeric_limits<float>::max();
    dt = e.graph.node("Clip",
                      {dt, e.graph.number(static_cast<float>(o.dt_limit_low)),
                       e.graph.number(static_cast<float>(std::min(o.dt_limit_high, largest)))});
  }
  const auto shape = scan_shape(e);
  return in_chunks(dt * e.batch.mask, {shape.G, shape.R, 1}, *e.batch.tiling);
}

// y (B, G, R, L', P) one position later, or earlier; zero at the first position, or the last.
// Padded, then cut: ONNX Runtime 1.23 leaves memory unset where one Pad adds a position and removes
// the only other.
Value shifted(const Value& y, const Value& length, bool reverse) {
  Graph& g = *y.graph;
  const int64_t before = reverse ? 0 : 1;
  const auto longer = g.node("Pad", {y, g.ints({0, 0, 0, before, 0, 0, 0, 0, 1 - before, 0})});
  const auto one = g.ints({1});
  return reverse ? slice(longer, one, length + one, 3) : slice(longer, g.ints({0}), length, 3);
}

// The diagonal, to be multiplied by x (B, G, R, L', P); none without a skip.
Value diagonal(const BlockExport& e, const Value& x) {
  Graph& g = e.graph;
  const auto shape = scan_shape(e);
  if (!e.has(e.mixer_name("D"))) return {};
  if (e.options.mixer != "hydra")
    return e.stored("D", e.of_mixer("D").view({shape.G, shape.R, 1, 1}));
  const auto delta = matmul(x, e.stored("fc_D.weight", e.of_mixer("fc_D.weight").t())) +
                     e.stored("D", e.of_mixer("D"));  // (B, L', H)
  const auto grouped = reshape(delta, g.ints({0, 0, shape.G, shape.R}));
  return unsqueeze(transpose(grouped, {0, 2, 3, 1}), {-1});
}

Value scan_mixer(const BlockExport& e, const Projected& p) {
  Graph& g = e.graph;
  const auto shape = scan_shape(e);
  const auto& tiling = *e.batch.tiling;
  const bool hydra = e.options.mixer == "hydra", both = e.options.mixer != "semiseparable";
  const auto places = joined({g.ints({0, 0, 0}), tiling.padded_length(), g.ints({shape.P})});
  const auto x = in_chunks(p.x, {shape.G, shape.R, shape.P}, tiling);
  const auto dt_bias = e.stored("dt_bias", e.of_mixer("dt_bias"));
  const auto A =
      e.stored("A", -e.of_mixer("A_log").to(torch::kFloat32).exp().view({shape.G, shape.R, 1, 1}));
  Value initial;
  if (e.has(e.mixer_name("init_states")))  // (H, P, N)
    initial = e.stored("init_states", e.of_mixer("init_states")
                                          .transpose(1, 2)
                                          .reshape({shape.G, shape.R, 1, shape.N * shape.P}));

  const auto direction = [&](const std::string& which, bool reverse) {
    const auto dt = step(e, p.columns.at("dt" + which), dt_bias);
    const auto l = g.node("Squeeze", {dt, g.ints({-1})}) * A;
    auto c = p.columns.at("C" + which);
    // The state before the first token is not zero: no position of padding may read it.
    if (initial.graph != nullptr) c = c * e.batch.mask;
    const auto y = scan({.x = x * dt,
                         .l = l,
                         .b = in_chunks(p.columns.at("B" + which), {shape.G, 1, shape.N}, tiling),
                         .c = in_chunks(c, {shape.G, 1, shape.N}, tiling),
                         .initial = initial},
                        shape, tiling, reverse);
    const auto in_places = reshape(y, places);
    return hydra ? shifted(in_places, tiling.padded_length(), reverse) : in_places;
  };
  auto y = direction(both ? "_f" : "", /*reverse=*/false);
  if (both) y = y + direction("_b", /*reverse=*/true);
  const auto d = diagonal(e, p.x);
  if (d.graph != nullptr) y = y + d * reshape(x, places);
  return reshape(transpose(y, {0, 3, 1, 2, 4}), g.ints({0, 0, e.heads.channels()}));
}

Value attention(const BlockExport& e, const Projected& p) {
  Graph& g = e.graph;
  const int64_t H = e.heads.H, d = e.options.mixer_options.qk_dim;
  const auto in_heads = [&](const Value& t, int64_t width, const Ints& order) {
    return transpose(reshape(t, g.ints({0, 0, H, width})), order);
  };
  const auto scale = g.number(1 / std::sqrt(static_cast<float>(d)));
  const auto q = in_heads(p.columns.at("q") * scale, d, {0, 2, 1, 3});
  const auto k = in_heads(p.columns.at("k"), d, {0, 2, 3, 1});
  // Not minus infinity: the softmax of a row of padding alone would not be a number.
  const auto is_key = g.node("Greater", {transpose(unsqueeze(e.batch.mask, {1}), {0, 1, 3, 2}),
                                         g.number(0)});  // (B, 1, 1, L')
  const auto logits =
      g.node("Where", {is_key, matmul(q, k), g.number(std::numeric_limits<float>::lowest())});
  const auto M = g.node("Softmax", {logits}, {{"axis", int64_t{-1}}});
  const auto y = matmul(M, in_heads(p.x, e.heads.P, {0, 2, 1, 3}));
  return reshape(transpose(y, {0, 2, 1, 3}), g.ints({0, 0, e.heads.channels()}));
}

// rms_norm(y) * silu(z)
Value gated_norm(const BlockExport& e, const Value& y, const Value& z) {
  Graph& g = e.graph;
  const auto squares = g.node("Pow", {y, g.number(2)});
  const auto mean = g.node("ReduceMean", {squares}, {{"axes", Ints{-1}}});
  const auto root = g.node("Sqrt", {mean + g.number(kGateEps)});
  return y / root * e.stored("norm.weight", e.at("norm.weight")) * silu(z);
}

}  // namespace

bool is_scan(const std::string& mixer) { return mixer != "attention"; }

void check_exportable(const BlockOptions& o, const std::string& origin) {
  const auto& name = o.mixer;
  HYDRAMIX_CHECK_USAGE(
      name == "hydra" || name == "semiseparable" || name == "add" || name == "attention", origin,
      ": its mixer is ", name, ", which has no ONNX graph; those of hydra, semiseparable, add and ",
      "attention can be exported. Run this model with hydramix.");
  HYDRAMIX_CHECK_USAGE(
      (o.style == "mamba" || o.style == "plain") && !o.separate && o.side_mixer == "none", origin,
      ": its block has style ", o.style, o.side_mixer == "none" ? "" : " and a side mixer",
      "; the styles mamba and plain, without a side mixer, can be exported. Run this model with "
      "hydramix.");
}

Value linear(const Value& x, const Weights& weights, const std::string& prefix) {
  Graph& g = *x.graph;
  const auto y = matmul(x, g.weight(prefix + ".weight", weights.at(prefix + ".weight").t()));
  const auto bias = weights.find(prefix + ".bias");
  return bias == weights.end() ? y : y + g.weight(prefix + ".bias", bias->second);
}

Value block(const Value& u, const BlockOptions& options, const Weights& weights,
            const std::string& prefix, const Batch& batch) {
  const auto heads = options.heads();
  const BlockExport e{*u.graph,
                      options,
                      weights,
                      prefix,
                      batch,
                      heads,
                      make_mixer(options.mixer, heads, options.mixer_options)};
  const auto p = preprocessed(e, u * batch.mask);
  const auto y = is_scan(options.mixer) ? scan_mixer(e, p) : attention(e, p);
  return linear(options.style == "mamba" ? gated_norm(e, y, p.z) : y, weights, prefix + "out_proj");
}

}  // namespace hydramix::onnx
