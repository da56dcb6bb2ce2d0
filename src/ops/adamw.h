// SPDX-License-Identifier: Apache-2.0
// One step of AdamW over flat buffers, in one pass that reads and writes everything once. On a GPU
// the pass also leaves the weights rounded to bfloat16 for the next step's products.
//
//   g = gradient / terms, scaled so that its norm is at most clip
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   w = keep w - rate m / (sqrt(v) denominator_scale + epsilon)
//   average = ema average + (1 - ema) w
#pragma once

#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Where the parameters lie in a buffer, and which group each belongs to.
struct AdamWPlan {
  struct Range {
    int64_t begin, size;
    uint8_t group;
  };
  std::vector<Range> ranges;
  torch::Tensor ends, groups;  // the same for kernels on a GPU; undefined elsewhere
};
AdamWPlan adamw_plan(std::vector<AdamWPlan::Range> ranges, torch::Device device);

struct AdamWBuffers {  // (n) each
  torch::Tensor gradient, weight, mean, square;
  torch::Tensor average;  // or undefined
  torch::Tensor rounded;  // bfloat16 on a GPU, or undefined
};

struct AdamWUpdate {
  struct Group {
    double rate, keep;  // the rate over 1 - beta1^t; what decay leaves of a weight
  };
  std::vector<Group> groups;
  // Scalars in float64 on the device of the buffers, so that the host need not wait for them: the
  // terms of the loss whose gradient the buffer holds, and the sum of its squares.
  torch::Tensor terms, squares;
  double clip;
  double beta1, beta2, epsilon, denominator_scale, ema;
};

// The weights rounded to bfloat16, where adamw_step() can write them; undefined elsewhere.
torch::Tensor rounded_weights(const torch::Tensor& weight);

// The sum of squares of a gradient: a float64 scalar on its device; NaN or infinite if a value is.
torch::Tensor sum_of_squares(const AdamWPlan& plan, const torch::Tensor& gradient);
// Changes nothing if the sum of squares is not finite.
void adamw_step(const AdamWPlan& plan, const AdamWBuffers& buffers, const AdamWUpdate& update);

// The factor of the gradient, which divides it by the terms and clips it; not finite if the norm is
// not. Waits for the device.
double gradient_scale(const AdamWUpdate& update);

namespace on_cpu {
torch::Tensor sum_of_squares(const AdamWPlan& plan, const torch::Tensor& gradient);
void adamw_step(const AdamWPlan& plan, const AdamWBuffers& buffers, const AdamWUpdate& update);
}  // namespace on_cpu
namespace on_cuda {
torch::Tensor sum_of_squares(const AdamWPlan& plan, const torch::Tensor& gradient);
void adamw_step(const AdamWPlan& plan, const AdamWBuffers& buffers, const AdamWUpdate& update);
}  // namespace on_cuda

}  // namespace hydramix
