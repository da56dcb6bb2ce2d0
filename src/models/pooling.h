// SPDX-License-Identifier: Apache-2.0
// One vector per sequence out of the encoder's outputs.
#pragma once

#include <string>

#include "hydramix/layout.h"

namespace hydramix {

// hidden (B, L, d_model) -> (S, d_model), one row for each nonempty sequence of the layout.
// `pooling` is "cls", the first token; or "mean", the mean over all tokens of the sequence. On the
// CPU a row's bits depend on its sequence alone. Differentiable.
torch::Tensor pooled(const torch::Tensor& hidden, const Layout& layout, const std::string& pooling);

}  // namespace hydramix
