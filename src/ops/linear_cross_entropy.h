// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of a linear classifier with many classes. The logits are never stored as a whole:
// they are computed and discarded in chunks of rows.
//
//   sum_i  log sum_v exp(z_iv) - z_i,target(i)      z = x weight^T + bias
#pragma once

#include "hydramix/rounded_copy.h"

namespace hydramix {

struct CrossEntropy {
  torch::Tensor sum;      // () float64
  torch::Tensor correct;  // () int64: rows whose largest logit is the target's
};

// Gradients of the summed loss, in the shapes and dtypes of the inputs.
struct CrossEntropyGradients {
  torch::Tensor x, weight, bias;
};

// x (m, d), weight (V, d), bias (V), targets (m) int64 in [0, V). Products are computed in `type`
// (product_type() of x); `copy` is the weight's rounded copy, used for bfloat16. If gradients are
// needed, the forward pass computes and saves them. Besides these, at most `chunk` rows of V
// numbers exist at a time. With bfloat16 on a GPU chunks have at least 16384 rows, and targets
// below 0 are ignored.
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
