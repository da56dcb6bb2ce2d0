// SPDX-License-Identifier: Apache-2.0
#include "hydramix/layer_stack.h"

#include <algorithm>

#include "models/encoder_parts.h"
#include "ops/dropout.h"
#include "ops/norm.h"
#include "ops/recompute.h"

namespace hydramix {
namespace {

// LayerNorm(x + y)
torch::Tensor added(const torch::nn::LayerNorm& norm, const torch::Tensor& x,
                    const torch::Tensor& y) {
  return add_layer_norm(x, y, norm->weight, norm->bias, norm->options.eps());
}

// y (B, L, C) without what it adds to the sequences that `keep` (S) bool does not keep.
torch::Tensor without_sequences(const torch::Tensor& y, const torch::Tensor& keep,
                                const Layout& layout, double share) {
  const auto factor = keep.to(y.scalar_type());
  if (layout.is_full()) return y * factor.view({-1, 1, 1}) * (1 / (1 - share));
  const auto sequences = layout.sequences(y.size(0), y.size(1));
  const auto tokens = factor.index_select(0, sequences.index_of_tokens(y.device()));
  return y * layout.from_tokens(tokens.view({1, -1, 1})) * (1 / (1 - share));
}

}  // namespace

torch::Tensor LayerStackImpl::Layer::forward(const torch::Tensor& x, const Layout& layout,
                                             const DropoutKey& dropout) const {
  if (pre_norm) {
    auto mixed =
        x + dropped(mixer->forward(normalized(norm, x), layout, dropout), 0, layout, dropout);
    if (mlp.is_empty()) return mixed;
    return mixed +
           dropped(mlp->forward(normalized(mlp_norm, mixed), layout, dropout), 1, layout, dropout);
  }
  auto mixed = added(norm, x, dropped(mixer->forward(x, layout, dropout), 0, layout, dropout));
  if (mlp.is_empty()) return mixed;
  return added(mlp_norm, mixed, dropped(mlp->forward(mixed, layout, dropout), 1, layout, dropout));
}

torch::Tensor LayerStackImpl::Layer::dropped(const torch::Tensor& given, int64_t half,
                                             const Layout& layout, const DropoutKey& key) const {
  if (!mixer->is_training()) return given;
  auto y = given;
  const int64_t output = 2 * key.layer + half;
  if (output_dropout > 0) {
    const auto tokens = token_numbers(y, layout, key, output_dropout);
    const auto keep = keep_output(tokens, output, y.size(2), output_dropout);
    y = without(y, keep, layout, output_dropout);
  }
  if (depth_dropout > 0) {
    check_key("encoder", key, layout.sequences(y.size(0), y.size(1)).count(), depth_dropout);
    const DropoutKey here{key.seed, key.sequences.to(y.device()), key.layer};
    y = without_sequences(y, keep_branches(here, output, depth_dropout), layout, depth_dropout);
  }
  return y;
}

std::vector<torch::Tensor> LayerStackImpl::Layer::parameters() const {
  auto all = mixer->parameters();
  const auto append = [&](const std::vector<torch::Tensor>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  append(norm->parameters());
  if (!mlp.is_empty()) append(mlp->parameters());
  if (!mlp_norm.is_empty()) append(mlp_norm->parameters());
  return all;
}

LayerStackImpl::LayerStackImpl(const LayerStackOptions& options) : recompute_(options.recompute) {
  const int64_t d_model = options.block.d_model;
  auto stack = scope(*this, "layer");
  for (int64_t i = 0; i < options.layers; ++i) {
    auto whole = scope(*stack, std::to_string(i));
    auto mixing = scope(*whole, "layer");
    const double depth = options.stochastic_depth * static_cast<double>(i) /
                         static_cast<double>(std::max<int64_t>(options.layers - 1, 1));
    Layer layer{options.pre_norm, options.output_dropout, depth,
                mixing->register_module("mixer", Block(options.block)),
                mixing->register_module("norm", make_norm(d_model, options.norm_eps))};
    if (options.mlp.kind != "none") {
      layer.mlp = whole->register_module("mlp", Mlp(d_model, options.mlp));
      layer.mlp_norm = whole->register_module("mlp_norm", make_norm(d_model, options.norm_eps));
    }
    layers_.push_back(layer);
  }
  if (options.pre_norm) final_norm = register_module("norm", make_norm(d_model, options.norm_eps));
}

torch::Tensor LayerStackImpl::forward(
    torch::Tensor x, const Layout& layout, const DropoutKey& dropout,
    const std::function<void(const torch::Tensor&)>& observe) const {
  DropoutKey key = dropout;
  key.layer = 0;
  for (const auto& layer : layers_) {
    // Captures the layer by value, which shares its weights, because the autograd graph may outlive
    // the model.
    const auto run = [layer, layout, key](const torch::Tensor& input) {
      return layer.forward(input, layout, key);
    };
    x = recompute_ ? recomputed(run, x, layer.parameters()) : run(x);
    if (observe) observe(x);
    ++key.layer;
  }
  return final_norm.is_empty() ? x : normalized(final_norm, x);
}

}  // namespace hydramix
