// SPDX-License-Identifier: Apache-2.0
#include "models/encoder_parts.h"

#include <cmath>
#include <numbers>

#include "hydramix/error.h"
#include "hydramix/mlp.h"
#include "ops/host_copy.h"
#include "ops/norm.h"

namespace hydramix {

std::shared_ptr<torch::nn::Module> scope(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

torch::nn::LayerNorm make_norm(int64_t width, double eps) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(eps));
}

torch::Tensor normalized(const torch::nn::LayerNorm& norm, const torch::Tensor& x) {
  return layer_norm(x, norm->weight, norm->bias, norm->options.eps());
}

torch::Tensor in_places(const torch::Tensor& tokens, const Layout& layout, at::IntArrayRef shape) {
  return layout.is_full() ? tokens.view(shape) : layout.from_tokens(tokens.unsqueeze(0));
}

TokenNumbers token_numbers(const torch::Tensor& x, const Layout& layout, const DropoutKey& key,
                           double share) {
  const auto sequences = layout.sequences(x.size(0), x.size(1));
  check_key("encoder", key, sequences.count(), share);
  return {key.seed,
          key.sequences.to(x.device()).index_select(0, sequences.index_of_tokens(x.device())),
          sequences.place_of_tokens(x.device())};
}

torch::Tensor without(const torch::Tensor& x, const torch::Tensor& keep, const Layout& layout,
                      double share) {
  return x * in_places(keep.to(x.scalar_type()), layout, x.sizes()) * (1 / (1 - share));
}

void draw_weight(const torch::Tensor& weight, const InitialWeights& initial) {
  torch::NoGradGuard no_grad;
  const double deviation = initial.deviation;
  if (initial.distribution == "normal") {
    weight.normal_(0, deviation);
    return;
  }
  // Samples by the inverse of the distribution function: P(|x| < 2 deviations) = erf(sqrt(2)).
  const double within = std::erf(std::numbers::sqrt2);
  weight.uniform_(-within, within).erfinv_().mul_(deviation * std::numbers::sqrt2);
  weight.clamp_(-2 * deviation, 2 * deviation);  // against rounding
}

void initialize_as_bert(const torch::nn::Module& model, const InitialWeights& initial) {
  torch::NoGradGuard no_grad;
  const auto draw = [&](const torch::Tensor& weight) { draw_weight(weight, initial); };
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* linear = module->as<torch::nn::LinearImpl>()) {
      draw(linear->weight);
      if (linear->bias.defined()) linear->bias.zero_();
    } else if (auto* embedding = module->as<torch::nn::EmbeddingImpl>()) {
      draw(embedding->weight);
    } else if (auto* mlp = module->as<MlpImpl>()) {
      for (auto& weight : mlp->parameters())
        if (weight.dim() > 1) draw(weight);
    }
  }
}

void check_numbers(const char* name, const torch::Tensor& ids, int64_t bound) {
  if (runs_beside_host(ids.device()) || ids.numel() == 0) return;
  const int64_t low = ids.min().item<int64_t>(), high = ids.max().item<int64_t>();
  HYDRAMIX_CHECK(low >= 0 && high < bound, "bert: ", name, " must be in [0, ", bound - 1, "]; got ",
                 low < 0 ? low : high, ". Is the text tokenized with this model's vocabulary?");
}

}  // namespace hydramix
