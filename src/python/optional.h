// SPDX-License-Identifier: Apache-2.0
// LibTorch's optional values in operators: c10::optional in LibTorch 1.13, std::optional later.
#pragma once

#include <utility>

#include "hydramix/torch_compat.h"

namespace hydramix {

template <class T>
using Optional = decltype(std::declval<c10::IValue&>().toOptional<T>());

}  // namespace hydramix
