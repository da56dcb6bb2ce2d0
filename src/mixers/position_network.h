// SPDX-License-Identifier: Apache-2.0
// A small network of the position, which gives the kernels of long convolutions at every lag:
//
//   f(p) = W_n a(... a(W_2 a(W_1 p + b_1) + b_2) ...) + b_n
//
// Hyena, M2, CKConv and TNN differ in what p holds, in the activation a and in what follows f.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

struct PositionNetworkShape {
  int64_t inputs, width, layers, outputs;  // layers: W_1 .. W_n
  bool output_bias = true;
};

class PositionNetwork : public torch::nn::Module {
 public:
  // Weights start as those of PyTorch's linear layers. They are not torch::nn::Linear: the
  // initialisation of a model leaves them alone.
  explicit PositionNetwork(const PositionNetworkShape& shape);

  // p (positions, inputs) -> (positions, outputs), computed in the dtype of p. `who` begins the
  // error if a weight cannot be converted to it.
  torch::Tensor forward(const std::string& who, const torch::Tensor& p,
                        const std::function<torch::Tensor(const torch::Tensor&)>& activation) const;

  struct Layer {
    torch::Tensor weight;  // (out, in)
    torch::Tensor bias;    // (out); undefined in a last layer without one
  };
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  std::vector<Layer> layers_;
};

}  // namespace hydramix
