// SPDX-License-Identifier: Apache-2.0
#include "hydramix/block.h"

#include <cmath>

#include "hydramix/error.h"
#include "ops/arithmetic.h"
#include "ops/depthwise_conv.h"
#include "ops/gated_rms_norm.h"

namespace hydramix {
namespace {

constexpr double kNormEps = 1e-5;

}  // namespace

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
    : options_(options), heads_(options.heads()), causal_(mixer_info(options.mixer).causal) {
  mixer_ =
      register_module("matrix_mixer", make_mixer(options.mixer, heads_, options.mixer_options));

  int64_t convolved = heads_.channels();
  bool conv_ended = false;
  for (const auto& columns : mixer_->projection()) {
    HYDRAMIX_CHECK(
        !(columns.conv && conv_ended), options.mixer, ": columns '", columns.name,
        "' pass the convolution but stand behind some that do not. Reorder projection().");
    conv_ended = !columns.conv;
    if (columns.conv) convolved += columns.width;
  }
  const int64_t projected = 2 * heads_.channels() + mixer_->projection_width();
  const int64_t combined = mixer_->combined_heads() * heads_.P;
  const auto linear = [&](int64_t in, int64_t out) {
    return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(options.bias));
  };
  in_proj = register_module("in_proj", linear(options.d_model, projected));
  conv1d = register_module(
      "conv1d", torch::nn::Conv1d(torch::nn::Conv1dOptions(convolved, convolved, options.d_conv)
                                      .groups(convolved)
                                      .bias(options.conv_bias)));
  auto norm = register_module("norm", std::make_shared<torch::nn::Module>());
  norm_weight = norm->register_parameter("weight", torch::ones({combined}));
  out_proj = register_module("out_proj", linear(combined, options.d_model));
}

torch::Tensor BlockImpl::weight(const torch::Tensor& w, const torch::Tensor& input) const {
  return widened("block", w, input.options());
}

void BlockImpl::check_input(const torch::Tensor& u, const Layout& layout) const {
  HYDRAMIX_CHECK(u.defined() && u.dim() == 3 && u.size(2) == options_.d_model,
                 "block: u must be (B, L, d_model) with d_model = ", options_.d_model, "; got ",
                 u.defined() ? concat("shape ", u.sizes()) : "an undefined tensor", ".");
  layout.check("block", u.size(0), u.size(1));
  finite_("block", *this);
}

BlockImpl::Preprocessed BlockImpl::preprocess(const torch::Tensor& u, const Layout& rows) const {
  const auto input = u.to(arithmetic_type("block", "u", u));
  const int64_t d_inner = heads_.channels(), convolved = conv1d->weight.size(0);
  const auto w = torch::linear(input, weight(in_proj->weight, input), weight(in_proj->bias, input));
  const auto z = w.narrow(2, 0, d_inner);
  // Zero at padding once more: in_proj's bias is not, and the convolution crosses the border.
  const auto conv =
      depthwise_conv(rows.to_rows(w.narrow(2, d_inner, convolved)), weight(conv1d->weight, input),
                     weight(conv1d->bias, input), causal_);
  const auto plain = w.narrow(2, d_inner + convolved, w.size(2) - d_inner - convolved);

  const auto x = torch::silu(conv.narrow(2, 0, d_inner));
  std::vector<torch::Tensor> parts{w.narrow(2, 0, 0)};
  int64_t conv_at = d_inner, plain_at = 0;
  for (const auto& columns : mixer_->projection()) {
    const auto part = columns.conv ? conv.narrow(2, conv_at, columns.width)
                                   : plain.narrow(2, plain_at, columns.width);
    (columns.conv ? conv_at : plain_at) += columns.width;
    parts.push_back(columns.silu ? torch::silu(part) : part);
  }
  const auto heads = x.unflatten(2, std::vector<int64_t>{heads_.H, heads_.P});
  return {z, heads, mixer_->derive(torch::cat(parts, 2), heads)};
}

torch::Tensor BlockImpl::forward(const torch::Tensor& u, const Layout& layout) const {
  check_input(u, layout);
  torch::Tensor sum;
  for (const Layout& part : layout.parts()) {
    const auto rows = part.to_rows(u);
    // Nothing to mix still belongs to the graph: a batch without tokens has zero gradients.
    const auto placed =
        part.from_rows(rows.numel() == 0 ? rows : forward_rows(rows, part.of_rows()));
    sum = sum.defined() ? sum + placed : placed;
  }
  return sum;
}

torch::Tensor BlockImpl::forward_rows(const torch::Tensor& u, const Layout& rows) const {
  const auto [z, x, params] = preprocess(u, rows);
  auto y = mixer_->mix(x, params, rows);
  if (const auto response = mixer_->initial_response(params, rows); response.defined())
    y = y + response;
  y = mixer_->combine(y).flatten(2);
  // A mixer that widens its output (concat) has every copy of a channel gated by the same z.
  const auto gate = y.size(2) == z.size(2) ? z : z.repeat({1, 1, y.size(2) / z.size(2)});
  const auto normed = gated_rms_norm(y, gate, weight(norm_weight, y), kNormEps);
  return torch::linear(normed, weight(out_proj->weight, y), weight(out_proj->bias, y))
      .to(u.scalar_type());
}

torch::Tensor BlockImpl::materialize(const torch::Tensor& u, const Layout& layout) const {
  check_input(u, layout);
  const auto rows = layout.of_rows();
  const auto [z, x, params] = preprocess(layout.to_rows(u), rows);
  return mixer_->materialize(params, x.size(1), rows);
}

}  // namespace hydramix
