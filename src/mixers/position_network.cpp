// SPDX-License-Identifier: Apache-2.0
#include "mixers/position_network.h"

#include <cmath>

#include "ops/arithmetic.h"
#include "ops/product.h"

namespace hydramix {

PositionNetwork::PositionNetwork(const PositionNetworkShape& shape) {
  for (int64_t n = 0; n < shape.layers; ++n) {
    const bool last = n + 1 == shape.layers;
    const int64_t in = n == 0 ? shape.inputs : shape.width,
                  out = last ? shape.outputs : shape.width;
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    auto scope = register_module(std::to_string(n), std::make_shared<torch::nn::Module>());
    Layer layer;
    layer.weight =
        scope->register_parameter("weight", torch::empty({out, in}).uniform_(-bound, bound));
    if (!last || shape.output_bias)
      layer.bias = scope->register_parameter("bias", torch::empty({out}).uniform_(-bound, bound));
    layers_.push_back(layer);
  }
}

torch::Tensor PositionNetwork::forward(
    const std::string& who, const torch::Tensor& p,
    const std::function<torch::Tensor(const torch::Tensor&)>& activation) const {
  torch::Tensor h = p;
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    if (n > 0) h = activation(h);
    h = linear_map(h, widened(who, layers_[n].weight, p.options()),
                   widened(who, layers_[n].bias, p.options()));
  }
  return h;
}

}  // namespace hydramix
