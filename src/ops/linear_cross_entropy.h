// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of a linear classifier over many classes, without its logits: they are made, used
// and forgotten a few rows at a time.
//
//   sum_i  log sum_v exp(z_iv) - z_i,target(i)      z = x weight^T + bias
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

struct CrossEntropy {
  torch::Tensor sum;      // () float64
  torch::Tensor correct;  // () int64: rows whose largest logit is the target's
};

// Of the summed loss, in the inputs' shapes and dtypes.
struct CrossEntropyGradients {
  torch::Tensor x, weight, bias;
};

// x (m, d), weight (V, d), bias (V), targets (m) int64 in [0, V). The forward pass computes the
// gradients too, where they are wanted, and keeps those of the inputs alone: beside them at most
// `chunk` rows of V numbers exist at a time (on a GPU, in bfloat16, at least 16384; and there a
// target below 0 does not count).
CrossEntropy linear_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const torch::Tensor& targets,
                                  int64_t chunk);

}  // namespace hydramix
