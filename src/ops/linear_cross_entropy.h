// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of a linear classifier over many classes, without its logits: they are made, used
// and forgotten a few rows at a time.
//
//   sum_i  log sum_v exp(z_iv) - z_i,target(i)      z = x weight^T + bias
#pragma once

#include "hydramix/rounded_copy.h"

namespace hydramix {

struct CrossEntropy {
  torch::Tensor sum;      // () float64
  torch::Tensor correct;  // () int64: rows whose largest logit is the target's
};

// Of the summed loss, in the inputs' shapes and dtypes.
struct CrossEntropyGradients {
  torch::Tensor x, weight, bias;
};

// x (m, d), weight (V, d), bias (V), targets (m) int64 in [0, V). Products are computed in `type`
// (product_type() of x), with `copy`, the weight's own, where that is bfloat16. The forward pass
// computes the gradients too, where they are wanted, and keeps those of the inputs alone: beside
// them at most `chunk` rows of V numbers exist at a time (on a GPU, in bfloat16, at least 16384;
// and there a target below 0 does not count).
CrossEntropy linear_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const torch::Tensor& targets,
                                  int64_t chunk, const RoundedCopy& copy, torch::ScalarType type);
CrossEntropy linear_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const torch::Tensor& targets,
                                  int64_t chunk);

namespace on_cuda {
// The same in bfloat16 without checks and autograd; with gradients if `gradients` is not null.
CrossEntropy cross_entropy_in_chunks(const torch::Tensor& x, const torch::Tensor& weight,
                                     const torch::Tensor& rounded_weight, const torch::Tensor& bias,
                                     const torch::Tensor& targets, int64_t chunk,
                                     CrossEntropyGradients* gradients);
}  // namespace on_cuda

}  // namespace hydramix
