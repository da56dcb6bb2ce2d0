// SPDX-License-Identifier: Apache-2.0
#include "hydramix/block.h"

#include <cmath>

#include "hydramix/error.h"
#include "mixers/quasiseparable.h"
#include "ops/arithmetic.h"
#include "ops/depthwise_conv.h"
#include "ops/norm.h"
#include "ops/projection.h"
#include "ops/reversal.h"

namespace hydramix {
namespace {

constexpr double kNormEps = 1e-5;

}  // namespace

std::vector<std::string> side_mixer_names() {
  auto names = mixer_names();
  names.insert(names.begin(), "none");
  return names;
}

Heads BlockOptions::heads() const {
  validate(*this);
  const double width = expand * static_cast<double>(d_model);
  const auto d_inner = static_cast<int64_t>(std::llround(width));
  HYDRAMIX_CHECK_USAGE(d_inner >= 1 && std::abs(width - static_cast<double>(d_inner)) < 1e-6,
                       "block: expand = ", expand, " times d_model = ", d_model, " is ", width,
                       ", not a whole number of channels.");
  HYDRAMIX_CHECK_USAGE(d_inner % headdim == 0, "block: d_inner = expand d_model = ", d_inner,
                       " is not a multiple of headdim = ", headdim,
                       ". Choose headdim so that it divides d_inner.");
  return {d_inner / headdim, headdim};
}

BlockImpl::BlockImpl(const BlockOptions& options)
    : options_(options),
      style_(options.style == "plain"   ? Style::kPlain
             : options.style == "gated" ? Style::kGated
             : options.style == "bare"  ? Style::kBare
                                        : Style::kMamba),
      heads_(options.heads()),
      causal_(options.causal_conv || mixer_info(options.mixer, options.mixer_options).causal) {
  if (options.separate) {
    check_separate();
    BlockOptions direction = options;
    direction.separate = false;
    direction.mixer = options.mixer_options.core;
    for (const char* name : {"forward", "backward"})
      directions_.push_back(register_module(name, std::make_shared<BlockImpl>(direction)));
    return;
  }
  mixer_ =
      register_module("matrix_mixer", make_mixer(options.mixer, heads_, options.mixer_options));
  if (options.side_mixer != "none")
    side_mixer_ = register_module("side_mixer",
                                  make_mixer(options.side_mixer, heads_, options.mixer_options));
  check_style();
  if (style_ == Style::kBare) return;

  // x, and z (and g) where the style has them.
  const int64_t parts = style_ == Style::kMamba ? 2 : style_ == Style::kGated ? 3 : 1;
  int64_t convolved = (style_ == Style::kGated ? 3 : 1) * heads_.channels();
  bool conv_ended = false;
  for (const auto& columns : mixer_->projection()) {
    HYDRAMIX_CHECK(
        !(columns.conv && conv_ended), options.mixer, ": columns '", columns.name,
        "' pass the convolution but stand after some that do not. Reorder projection().");
    conv_ended = !columns.conv;
    if (columns.conv) convolved += columns.width;
  }
  const int64_t projected = parts * heads_.channels() + mixer_->projection_width();
  const int64_t combined = mixer_->combined_heads() * heads_.P;
  in_proj = register_module("in_proj", Projection(options.d_model, projected, options.bias));
  if (style_ != Style::kPlain && options.d_conv > 0)
    conv1d = register_module(
        "conv1d", torch::nn::Conv1d(torch::nn::Conv1dOptions(convolved, convolved, options.d_conv)
                                        .groups(convolved)
                                        .bias(options.conv_bias)));
  if (style_ == Style::kMamba) {
    auto norm = register_module("norm", std::make_shared<torch::nn::Module>());
    norm_weight = norm->register_parameter("weight", torch::ones({combined}));
  }
  out_proj = register_module("out_proj", Projection(combined, options.d_model, options.bias));
}

void BlockImpl::check_separate() const {
  HYDRAMIX_CHECK_USAGE(options_.mixer == "bidirectional",
                       "block: separate makes a block for each "
                       "direction of mixer 'bidirectional'; got mixer '",
                       options_.mixer,
                       "'. Set mixer to bidirectional and mixer_options.core to a causal mixer.");
  HYDRAMIX_CHECK_USAGE(
      options_.mixer_options.combine != "quasi",
      "block: combine = quasi gives both directions one diagonal, which separate "
      "blocks do not have. Choose combine add, mult or concat, or separate = false "
      "with own_weights = true.");
}

void BlockImpl::check_style() const {
  const int64_t combined = mixer_->combined_heads() * heads_.P;
  HYDRAMIX_CHECK_USAGE(style_ != Style::kMamba || options_.d_conv >= 1,
                       "block: d_conv = 0, but style mamba has a convolution. Give d_conv >= 1, or "
                       "choose another style.");
  HYDRAMIX_CHECK_USAGE(style_ != Style::kGated || combined == heads_.channels(), "block: mixer '",
                       options_.mixer, "' gives ", combined, " channels for ", heads_.channels(),
                       ", which style gated cannot gate. Choose style mamba or plain.");
  HYDRAMIX_CHECK_USAGE(style_ != Style::kBare ||
                           (mixer_->projection_width() == 0 &&
                            heads_.channels() == options_.d_model && combined == options_.d_model),
                       "block: style bare has no projections, but mixer '", options_.mixer,
                       "' needs ", mixer_->projection_width(),
                       " columns, and d_inner = ", heads_.channels(), " becomes ", combined,
                       " channels for d_model = ", options_.d_model,
                       ". Choose style plain, or a mixer without columns and expand = 1.");
  if (side_mixer_ == nullptr) return;
  HYDRAMIX_CHECK_USAGE(style_ == Style::kGated, "block: side_mixer = ", options_.side_mixer,
                       ", but style ", options_.style,
                       " has no place for it. Choose style gated, or side_mixer = none.");
  HYDRAMIX_CHECK_USAGE(side_mixer_->projection_width() == 0 && side_mixer_->branches() == 1 &&
                           heads_.channels() == options_.d_model,
                       "block: side_mixer '", options_.side_mixer, "' reads the ", options_.d_model,
                       " channels of the input as they are. It must be a mixer without columns (it "
                       "needs ",
                       side_mixer_->projection_width(),
                       ") and with one matrix per head, and d_inner "
                       "(",
                       heads_.channels(), ") must be d_model: expand = 1.");
}

torch::Tensor BlockImpl::weight(const torch::Tensor& w, const torch::Tensor& input) const {
  return widened("block", w, input.options().dtype(arithmetic_type("block", "u", input)));
}

torch::Tensor BlockImpl::projected(const Projection& projection, const torch::Tensor& x) const {
  // bfloat16 products use the weight's rounded copy.
  if (x.scalar_type() == torch::kBFloat16 && projection->weight.scalar_type() != torch::kFloat64)
    return project(x, projection->weight, projection->bias, projection->copy(), x.scalar_type());
  return project(x, weight(projection->weight, x), weight(projection->bias, x));
}

void BlockImpl::check_input(const torch::Tensor& u, const Layout& layout) const {
  HYDRAMIX_CHECK(u.defined() && u.dim() == 3 && u.size(2) == options_.d_model,
                 "block: u must be (B, L, d_model) with d_model = ", options_.d_model, "; got ",
                 u.defined() ? concat("shape ", u.sizes()) : "an undefined tensor", ".");
  HYDRAMIX_CHECK(
      in_proj.is_empty() || u.scalar_type() != torch::kFloat64 ||
          in_proj->weight.scalar_type() == torch::kFloat64,
      "block: u is float64, the weights are not, so the result would have no more digits "
      "than they have. Give u.to(torch::kFloat32), or make the block float64: "
      "block->to(torch::kFloat64).");
  layout.check("block", u.size(0), u.size(1));
  finite_("block", *this);
}

torch::Tensor BlockImpl::in_arithmetic(const torch::Tensor& u) {
  return u.to(kernel_input_type("block", "u", u));
}

torch::Tensor BlockImpl::projected_input(const torch::Tensor& u) const {
  const auto input = in_arithmetic(u);
  return style_ == Style::kBare ? input : projected(in_proj, input);
}

BlockImpl::Preprocessed BlockImpl::preprocess(const torch::Tensor& w, const Layout& tokens) const {
  const auto in_heads = [&](const torch::Tensor& x) {
    return x.unflatten(2, std::vector<int64_t>{heads_.H, heads_.P});
  };
  if (style_ == Style::kBare) {
    const auto x = in_heads(w);
    return {{}, x, mixer_->derive(w.narrow(2, 0, 0), x)};
  }
  if (style_ == Style::kMamba) return preprocess_mamba(w, tokens);
  if (style_ == Style::kGated) return preprocess_gated(w, tokens);
  const auto parts = w.split_with_sizes({heads_.channels(), w.size(2) - heads_.channels()}, 2);
  const auto x = in_heads(parts[0]);
  return {{}, x, mixer_->derive(parts[1], x)};
}

BlockImpl::Preprocessed BlockImpl::preprocess_gated(const torch::Tensor& w,
                                                    const Layout& tokens) const {
  const int64_t d_inner = heads_.channels();
  auto all = w;
  if (!conv1d.is_empty()) {
    const int64_t convolved = conv1d->weight.size(0);
    const auto parts = w.split_with_sizes({convolved, w.size(2) - convolved}, 2);
    const auto conv = depthwise_conv_silu(parts[0], weight(conv1d->weight, w),
                                          weight(conv1d->bias, w), causal_, /*silu=*/0, tokens);
    all = torch::cat({conv, parts[1]}, 2);
  }
  const auto parts =
      all.split_with_sizes({d_inner, d_inner, d_inner, all.size(2) - 3 * d_inner}, 2);
  const auto x = (parts[1] * parts[2]).unflatten(2, std::vector<int64_t>{heads_.H, heads_.P});
  return {parts[0], x, mixer_->derive(parts[3], x)};
}

BlockImpl::Preprocessed BlockImpl::preprocess_mamba(const torch::Tensor& w,
                                                    const Layout& tokens) const {
  const int64_t d_inner = heads_.channels(), convolved = conv1d->weight.size(0);
  // A single split, so that its gradient is one copy.
  const auto parts_of_w =
      w.split_with_sizes({d_inner, convolved, w.size(2) - d_inner - convolved}, 2);
  const auto &z = parts_of_w[0], &plain = parts_of_w[2];

  // The convolution also applies SiLU to x and the columns right after it; SiLU of later columns is
  // separate.
  const auto columns = mixer_->projection();
  int64_t silu = d_inner;
  std::size_t fused = 0;
  for (; fused < columns.size() && columns[fused].conv && columns[fused].silu; ++fused)
    silu += columns[fused].width;
  const auto conv = depthwise_conv_silu(parts_of_w[1], weight(conv1d->weight, w),
                                        weight(conv1d->bias, w), causal_, silu, tokens);

  const auto x_and_rest = conv.split_with_sizes({d_inner, convolved - d_inner}, 2);
  std::vector<torch::Tensor> parts{x_and_rest[1].narrow(2, 0, silu - d_inner)};
  int64_t conv_at = silu - d_inner, plain_at = 0;
  for (std::size_t i = fused; i < columns.size(); ++i) {
    const auto& from = columns[i].conv ? x_and_rest[1] : plain;
    int64_t& at = columns[i].conv ? conv_at : plain_at;
    const auto part = from.narrow(2, at, columns[i].width);
    at += columns[i].width;
    parts.push_back(columns[i].silu ? torch::silu(part) : part);
  }
  const auto heads = x_and_rest[0].unflatten(2, std::vector<int64_t>{heads_.H, heads_.P});
  return {z, heads, mixer_->derive(torch::cat(parts, 2), heads)};
}

torch::Tensor BlockImpl::side_output(const torch::Tensor& u, const Layout& tokens) const {
  if (side_mixer_ == nullptr) return {};
  const auto input = in_arithmetic(u);
  const auto x = input.unflatten(2, std::vector<int64_t>{heads_.H, heads_.P});
  return side_mixer_->mix(x, side_mixer_->derive(input.narrow(2, 0, 0), x), tokens).flatten(2);
}

torch::Tensor BlockImpl::postprocess(const torch::Tensor& y, const torch::Tensor& z,
                                     const torch::Tensor& side) const {
  if (style_ == Style::kBare) return y;
  // If the mixer widens its output (concat), every copy of a channel is gated by the same z.
  const auto gated = style_ == Style::kMamba
                         ? gated_rms_norm(y, z, weight(norm_weight, y), kNormEps)
                     : style_ == Style::kGated ? y * z
                                               : y;
  return projected(out_proj, side.defined() ? gated + side : gated);
}

torch::Tensor BlockImpl::fused_hydra(const torch::Tensor& w, const Layout& tokens) const {
  const auto* hydra = dynamic_cast<const Hydra*>(mixer_.get());
  // The fused operation centres its convolution.
  if (style_ != Style::kMamba || causal_ || hydra == nullptr || !hydra->is_fusable()) return {};
  HydraShape shape = hydra->inner_shape();
  shape.centre = options_.d_conv / 2;
  shape.eps = kNormEps;
  const auto rows = w.flatten(0, 1);
  if (!hydra_inner_supports(rows, shape)) return {};
  HydraWeights weights = hydra->inner_weights(w);
  weights.conv_weight = weight(conv1d->weight, w);
  weights.conv_bias = weight(conv1d->bias, w);
  weights.norm = weight(norm_weight, w);
  return hydra_inner(rows, weights, shape, tokens.sequences(w.size(0), w.size(1)))
      .unflatten(0, std::vector<int64_t>{w.size(0), w.size(1)});
}

torch::Tensor BlockImpl::forward_separate(const torch::Tensor& u, const Layout& layout,
                                          const DropoutKey& dropout) const {
  const Layout tokens = layout.token_layout();
  const auto v = in_arithmetic(layout.to_tokens(u));
  const auto sequences = tokens.sequences(v.size(0), v.size(1));
  const auto flipped = [&](const torch::Tensor& t) {
    return flip_tokens(t.flatten(0, 1), sequences).view(t.sizes());
  };
  // Layers are numbered from 0: the backward block drops other entries than any forward one.
  DropoutKey reversed = dropout;
  reversed.layer = -1 - dropout.layer;
  const auto y_f = directions_[0]->forward(v, tokens, dropout);
  const auto y_b = flipped(directions_[1]->forward(flipped(v), tokens, reversed));
  // Both end in an out_proj, so that concat is add: [W_f W_b] [y_f; y_b] = W_f y_f + W_b y_b.
  const auto y = options_.mixer_options.combine == "mult" ? y_f * y_b : y_f + y_b;
  return layout.from_tokens(y.to(u.scalar_type()));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& u, const Layout& layout,
                                 const DropoutKey& dropout) const {
  check_input(u, layout);
  if (!directions_.empty()) return forward_separate(u, layout, dropout);
  // From here on only tokens are processed: padding costs nothing and cannot leak.
  const Layout tokens = layout.token_layout();
  const auto input = layout.to_tokens(u);
  const auto w = projected_input(input);
  if (const auto gated = fused_hydra(w, tokens); gated.defined())
    return layout.from_tokens(projected(out_proj, gated).to(u.scalar_type()));
  const auto [z, x, params] = preprocess(w, tokens);
  auto y = mixer_->mix(x, params, tokens, dropout);
  if (const auto response = mixer_->initial_response(params, tokens); response.defined())
    y = y + response;
  y = mixer_->combine(y).flatten(2);
  return layout.from_tokens(postprocess(y, z, side_output(input, tokens)).to(u.scalar_type()));
}

torch::Tensor BlockImpl::materialize_separate(const torch::Tensor& v, const Layout& tokens) const {
  const auto sequences = tokens.sequences(v.size(0), v.size(1));
  const auto reversed = flip_tokens(v.flatten(0, 1), sequences).view(v.sizes());
  const auto M_f = directions_[0]->materialize(v, tokens);
  const auto M_b = directions_[1]->materialize(reversed, tokens);  // (S, branches H, L, L)
  auto valid = tokens.valid();
  if (valid.defined()) valid = valid.to(v.device());
  auto back = flip_rows(M_b.transpose(1, 2), valid).transpose(1, 2);
  back = flip_rows(back.transpose(1, 3), valid).transpose(1, 3);
  return torch::cat({M_f, back}, 1);
}

torch::Tensor BlockImpl::materialize(const torch::Tensor& u, const Layout& layout) const {
  check_input(u, layout);
  const Layout tokens = layout.token_layout();
  if (!directions_.empty()) return materialize_separate(layout.to_tokens(u), tokens);
  const auto [z, x, params] = preprocess(projected_input(layout.to_tokens(u)), tokens);
  return mixer_->materialize(params, x.size(1), tokens);
}

}  // namespace hydramix
