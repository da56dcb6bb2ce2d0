// SPDX-License-Identifier: Apache-2.0
#include "models/layer_matrices.h"

#include "hydramix/error.h"

namespace hydramix {
namespace {

using Observe = std::function<void(const torch::Tensor&)>;

std::vector<torch::Tensor> matrices_of(const torch::nn::Module& model, bool pre_norm,
                                       const std::function<void(const Observe& observe)>& encode) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> inputs;  // of each layer, then the output of the last
  encode([&](const torch::Tensor& x) { inputs.push_back(x); });
  std::vector<torch::Tensor> matrices;
  std::string outer;  // name of the last block
  const auto modules = model.named_modules();
  for (const auto& item : modules) {
    const auto* block = item.value()->as<BlockImpl>();
    // The blocks of a separate pair are part of the block that holds them, which comes first.
    if (block == nullptr || (!outer.empty() && item.key().starts_with(outer + "."))) continue;
    outer = item.key();
    auto input = inputs.at(matrices.size());
    if (pre_norm) {  // the block reads the normalised input
      const std::string name = item.key().substr(0, item.key().rfind('.')) + ".norm";
      const auto* norm = modules.find(name) == nullptr
                             ? nullptr
                             : (*modules.find(name))->as<torch::nn::LayerNormImpl>();
      HYDRAMIX_CHECK(norm != nullptr, "layer_matrices: there is no ", name, " beside ", item.key(),
                     ".");
      input = torch::layer_norm(input, norm->options.normalized_shape(), norm->weight, norm->bias,
                                norm->options.eps());
    }
    matrices.push_back(block->materialize(input)[0].to(torch::kCPU, torch::kFloat64).contiguous());
  }
  return matrices;
}

}  // namespace

std::vector<torch::Tensor> layer_matrices(
    const torch::nn::Module& model, const BertOptions& options,
    const std::function<void(const std::function<void(const torch::Tensor&)>& observe)>& encode) {
  return matrices_of(model, options.norm == "pre", encode);
}

std::vector<torch::Tensor> layer_matrices(const ImageModel& model, const torch::Tensor& pixels) {
  return matrices_of(*model, /*pre_norm=*/true,
                     [&](const Observe& observe) { model->forward(pixels, {}, observe); });
}

}  // namespace hydramix
