// SPDX-License-Identifier: Apache-2.0
#include "models/bert_parts.h"

#include <cmath>
#include <numbers>

#include "hydramix/error.h"
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

void initialize_as_bert(const torch::nn::Module& model, const BertOptions& options) {
  torch::NoGradGuard no_grad;
  const auto draw = [&](torch::Tensor weight) {
    const double deviation = options.initial_deviation;
    if (options.initial_distribution == "normal") {
      weight.normal_(0, deviation);
      return;
    }
    // Samples by the inverse of the distribution function: P(|x| < 2 deviations) = erf(sqrt(2)).
    const double within = std::erf(std::numbers::sqrt2);
    weight.uniform_(-within, within).erfinv_().mul_(deviation * std::numbers::sqrt2);
    weight.clamp_(-2 * deviation, 2 * deviation);  // against rounding
  };
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
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const int64_t low = ids.min().item<int64_t>(), high = ids.max().item<int64_t>();
  HYDRAMIX_CHECK(low >= 0 && high < bound, "bert: ", name, " must be in [0, ", bound - 1, "]; got ",
                 low < 0 ? low : high, ". Is the text tokenized with this model's vocabulary?");
}

}  // namespace hydramix
