// SPDX-License-Identifier: Apache-2.0
// Large matrix products: C = A B, for projections, their gradients and the head.
//
// Every entry of C is summed over k in the same order: in runs of at most kProductDepth terms, each
// accumulated from zero, then run after run. The order depends on k alone. So the bits of a row of
// C do not depend on the other rows, on their number, or on how C is cut into blocks.
//
// Operands are packed at every call: B panel by panel into L1, A once a block into L2. Packing is
// cheap enough that packed weights are not kept; docs/performance.md has the numbers.
#pragma once

#include <cstdint>

namespace hydramix::kernels {

constexpr int64_t kProductDepth = 192;  // a panel of B, 2 vectors wide, fills half of L1

// T is float or double. Of the two strides of an operand one is 1.
template <typename T>
struct ProductParams {
  int64_t m, n, k;
  const T* a;  // (m, k)
  int64_t a_row, a_column;
  const T* b;  // (k, n)
  int64_t b_row, b_column;
  const T* bias;  // (n), added to every row; or null
  T* c;           // (m, n), a row contiguous, c_row apart; must not alias a or b
  int64_t c_row;
  bool add;  // C += A B; without a bias
};

// A part of C. Its rows are at most product_rows(k), its first column a multiple of
// kProductColumns.
struct ProductBlock {
  int64_t row, rows, column, columns;
};
constexpr int64_t kProductColumns = 32;  // a multiple of a panel's width in every instruction set

// Rows of packed A that fit into L2.
template <typename T>
int64_t product_rows(int64_t k);

// Entries of scratch memory for a block of this many rows.
template <typename T>
int64_t product_scratch(int64_t rows, int64_t k);

// scratch: 64-byte aligned.
template <typename T>
void product(const ProductParams<T>& p, const ProductBlock& block, T* scratch);

}  // namespace hydramix::kernels
