// SPDX-License-Identifier: Apache-2.0
#include "cli/matrix_scale.h"

namespace hydramix {

double usual_magnitude(const torch::Tensor& M) {
  if (M.size(0) == 1) return M.abs().max().item<double>();
  const auto off = M.abs().masked_select(~torch::eye(M.size(0), torch::kBool));
  return std::get<0>(off.kthvalue(1 + (off.numel() - 1) * 99 / 100)).item<double>();
}

}  // namespace hydramix
