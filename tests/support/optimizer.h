// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/adamw.h"

namespace hydramix::test {

// A step with numbers of the host. Returns the norm of the gradient.
inline double take_step(AdamW& optimizer, double share, double terms, double loss = 0) {
  const auto scalar = [&](double value) {
    return torch::full({}, value, optimizer.mean().options().dtype(torch::kFloat64));
  };
  return optimizer.step(share, scalar(loss), scalar(terms)).item<double>();
}

}  // namespace hydramix::test
