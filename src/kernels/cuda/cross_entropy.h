// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of rows of logits, its gradient in their place, and sums over rows: the gradient of
// the bias, the loss, the number of correct rows.
//
//   loss = log sum_v exp(x_v) - x_target,   dx_v = scale (softmax(x)_v - [v = target]),   x = z +
//   bias
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace hydramix::cuda {

template <typename S>
struct CrossEntropyRows {
  int64_t rows = 0;
  int columns = 0;
  S* z = nullptr;  // (rows, columns), rows `z_row` values apart
  int64_t z_row = 0;
  const float* bias = nullptr;  // (columns), or null
  // (rows); a row with a negative target is ignored; if the target is not a column, the loss is NaN
  const int64_t* targets = nullptr;
  const float* scale = nullptr;  // () of the gradient; null: 1
  float* loss = nullptr;         // (rows), 0 if the row is ignored
  uint8_t* correct = nullptr;    // (rows): the first of the largest logits is the target's
  bool gradient = false;         // whether dx overwrites z
};

template <typename S>
cudaError_t cross_entropy(const CrossEntropyRows<S>& p, cudaStream_t stream);

// sums (columns) += the sums over rows of values (rows, columns), whose rows are `row` apart.
// `workspace` has column_sums_workspace() floats.
int64_t column_sums_workspace(int64_t rows, int columns);
template <typename S>
cudaError_t add_column_sums(int64_t rows, int columns, const S* values, int64_t row, float* sums,
                            float* workspace, cudaStream_t stream);

// *loss_sum += the sum of loss (rows), *correct_sum += that of correct (rows).
cudaError_t add_loss_sums(int64_t rows, const float* loss, const uint8_t* correct, double* loss_sum,
                          int64_t* correct_sum, cudaStream_t stream);

}  // namespace hydramix::cuda
