// SPDX-License-Identifier: Apache-2.0
// Errors as Python expects them: a UsageError becomes a ValueError, any other Error a RuntimeError.
#pragma once

#include <stdexcept>

#include "hydramix/error.h"

namespace hydramix {

// Calls f. LibTorch's bindings turn std::invalid_argument into ValueError.
template <class Function>
auto with_python_errors(Function&& f) {
  try {
    return f();
  } catch (const UsageError& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace hydramix
