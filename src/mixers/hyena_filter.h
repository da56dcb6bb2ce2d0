// SPDX-License-Identifier: Apache-2.0
// Hyena's implicit filter: a network of sines computes the kernels at every lag l, and an
// exponential window lets them decay at rates from slow to fast.
//
//   k_l     = W_n s(... s(W_2 s(W_1 e_l + b_1) + b_2) ...) * exp(-delta tau_l)    n: filter_layers
//   s(v)    = sin(frequency * v)                                frequency learned, one per channel
//   e_l     = (tau_l, cos(f_1 w_l), .., -sin(f_1 w_l), ..)      learned, starting with these values
//   tau_l   = l / (Lmax - 1),   w_l = 2 pi l / Lmax,   f_b evenly spaced from 1e-4 to B - 1
//   delta evenly spaced over the kernels from ln(100) / 1.5 to ln(100) / 0.3
//
// A second network with the same e, s and window computes the kernels of lags below zero, as in M2.
// Poli et al. 2023, Hyena Hierarchy: Towards Larger Convolutional Language Models; Fu et al. 2023,
// Monarch Mixer. Beyond Lmax, e_l has the values that it would start with.
#pragma once

#include "hydramix/mixer.h"
#include "mixers/position_network.h"

namespace hydramix {

class HyenaFilter : public torch::nn::Module {
 public:
  // directions 1: kernels of lags l >= 0 only.
  HyenaFilter(int64_t kernels, int64_t directions, const MixerOptions& options);

  // -> (directions, kernels, L) in the dtype of `rows`, from lag 0 up, and from lag -1 down.
  torch::Tensor kernels(const std::string& who, const Rows& rows) const;
  const std::vector<std::shared_ptr<PositionNetwork>>& networks() const { return networks_; }

 private:
  torch::Tensor features(const std::string& who, const Rows& rows) const;  // (L, filter_features)

  int64_t kernels_, max_length_;
  torch::Tensor position_embeddings;  // (max_length, filter_features): e
  torch::Tensor frequency;            // (filter_width)
  std::vector<std::shared_ptr<PositionNetwork>> networks_;
};

}  // namespace hydramix
