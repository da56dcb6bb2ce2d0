// SPDX-License-Identifier: Apache-2.0
// LibTorch modules with a bfloat16 copy of their weight, for products on a GPU's tensor cores.
#pragma once

#include "hydramix/rounded_copy.h"

namespace hydramix {

class ProjectionImpl : public torch::nn::LinearImpl, public HasRoundedCopies {
 public:
  ProjectionImpl(int64_t in, int64_t out, bool has_bias = true)
      : torch::nn::LinearImpl(torch::nn::LinearOptions(in, out).bias(has_bias)) {}

  const RoundedCopy& copy() const { return copy_; }
  std::vector<std::pair<torch::Tensor, RoundedCopy>> rounded_copies() const override {
    return {{weight, copy_}};
  }

 private:
  RoundedCopy copy_;
};
TORCH_MODULE(Projection);

// An embedding table that is also the weight of the masked-LM head.
class TiedEmbeddingImpl : public torch::nn::EmbeddingImpl, public HasRoundedCopies {
 public:
  TiedEmbeddingImpl(int64_t rows, int64_t width) : torch::nn::EmbeddingImpl(rows, width) {}

  const RoundedCopy& copy() const { return copy_; }
  std::vector<std::pair<torch::Tensor, RoundedCopy>> rounded_copies() const override {
    return {{weight, copy_}};
  }

 private:
  RoundedCopy copy_;
};
TORCH_MODULE(TiedEmbedding);

}  // namespace hydramix
