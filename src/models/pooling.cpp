// SPDX-License-Identifier: Apache-2.0
#include "models/pooling.h"

#include "hydramix/error.h"
#include "ops/sequence_means.h"

namespace hydramix {

torch::Tensor pooled(const torch::Tensor& hidden, const Layout& layout,
                     const std::string& pooling) {
  HYDRAMIX_CHECK_USAGE(pooling == "cls" || pooling == "mean", "pooling is '", pooling,
                       "'; expected 'cls' or 'mean'.");
  if (pooling == "mean") return sequence_means(hidden, layout);
  const auto sequences = layout.sequences(hidden.size(0), hidden.size(1));
  const auto first =
      torch::tensor(sequences.offsets(), torch::kInt64).narrow(0, 0, sequences.count());
  return layout.to_tokens(hidden).flatten(0, 1).index_select(
      0, first.to(hidden.device(), /*non_blocking=*/true));
}

}  // namespace hydramix
