// SPDX-License-Identifier: Apache-2.0
// The mean over the tokens of each sequence.
#pragma once

#include "hydramix/layout.h"

namespace hydramix {

// hidden (B, L, C) -> (S, C), one row for each nonempty sequence of the layout. On the CPU a row's
// bits depend on its sequence alone. Differentiable.
torch::Tensor sequence_means(const torch::Tensor& hidden, const Layout& layout);

}  // namespace hydramix
