// SPDX-License-Identifier: Apache-2.0
// The causal cores alone on a GPU, in bfloat16, one direction: the selective scan of Mamba (1536
// channels, 16 states), gated linear attention and retention (24 heads of 64).
#pragma once

#include <string>
#include <vector>

#include "hydramix/sequences.h"

namespace hydramix::bench {

std::vector<std::string> core_names();

struct CoreCase {
  std::string name;
  Sequences sequences;
  std::vector<torch::Tensor> leaves;  // inputs, x first, all with gradients

  CoreCase(std::string core, const Sequences& where);
  // The same numbers in float64 on the CPU.
  CoreCase reference() const;
  torch::Tensor run() const;
};

}  // namespace hydramix::bench
