// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "hydramix/error.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

// "shape [2, 3] of long", for errors.
inline std::string described(const torch::Tensor& t) {
  return t.defined() ? concat("shape ", t.sizes(), " of ", t.dtype()) : "an undefined tensor";
}

}  // namespace hydramix
