// SPDX-License-Identifier: Apache-2.0
// AdamW over flat float32 buffers in one pass on a GPU, which also leaves the weights rounded to
// bfloat16 for the next step's products.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix::on_cuda {

class AdamWPass {
 public:
  struct Buffers {  // (n) each
    torch::Tensor gradient, weight, mean, square;
    torch::Tensor average;  // or undefined
    torch::Tensor rounded;  // bfloat16, or undefined
  };
  struct Group {
    double rate, keep;
  };
  struct Step {
    double gradient_scale, beta1, beta2, epsilon, denominator_scale, ema, clip;
    std::vector<Group> groups;
  };

  // Range r ends at ends[r] and is of group groups[r].
  AdamWPass(const std::vector<int64_t>& ends, const std::vector<uint8_t>& groups,
            torch::Device device);

  // The sum of squares of the gradients, () float64, on the device.
  const torch::Tensor& sum_of_squares(const torch::Tensor& gradients);
  // One step, with the latest sum_of_squares().
  void step(const Buffers& buffers, const Step& step);

 private:
  torch::Tensor ends_, groups_;  // (ranges) int64, uint8
  torch::Tensor squares_;        // () float64
};

}  // namespace hydramix::on_cuda
