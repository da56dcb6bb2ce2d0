// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include "ops/gpu/ops.h"

namespace hydramix {

torch::Tensor embedding(const torch::Tensor& table, const torch::Tensor& ids) {
  if constexpr (gpu::kBuilt)
    if (gpu::takes(table) && table.scalar_type() == torch::kFloat32)
      return gpu::embedding(table, ids);
  return torch::embedding(table, ids);
}

}  // namespace hydramix
