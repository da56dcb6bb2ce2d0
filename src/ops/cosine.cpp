// SPDX-License-Identifier: Apache-2.0
#include "ops/cosine.h"

#include <cmath>

namespace hydramix {
namespace {

torch::Tensor angles(int64_t rows, int64_t cols, int64_t n, const torch::TensorOptions& options) {
  const auto integers = options.dtype(torch::kInt64);
  const auto product = torch::arange(rows, integers).unsqueeze(1) * torch::arange(cols, integers);
  return product.remainder(n).to(torch::kFloat64) * (2 * M_PI / static_cast<double>(n));
}

}  // namespace

torch::Tensor cosine_table(int64_t rows, int64_t cols, int64_t n,
                           const torch::TensorOptions& options) {
  return angles(rows, cols, n, options).cos().to(options.dtype().toScalarType());
}

torch::Tensor sine_table(int64_t rows, int64_t cols, int64_t n,
                         const torch::TensorOptions& options) {
  return angles(rows, cols, n, options).sin().to(options.dtype().toScalarType());
}

}  // namespace hydramix
