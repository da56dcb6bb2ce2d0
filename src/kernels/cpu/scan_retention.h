// SPDX-License-Identifier: Apache-2.0
// Retention: the causal scan (kernels/cpu/scan.h) whose heads have keys and queries of their own
// and forget at a fixed rate, as in RetNet and TransNormer,
//
//   y_i = sum_{j <= i} (c_i . b_j) a^(i - j) dt x_j + D x_i,   a = exp(A dt).
//
// Decays depend on distances alone, so they are computed once for each head, and nothing is summed
// for their gradients. The caller runs a task for each sequence and head in parallel.
#pragma once

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

template <typename S>
struct RetentionInputs {
  int64_t H, P, N;  // heads, channels and states of a head
  int64_t tile;     // places of a chunk
  StridedRows<const S> x, b, c;
  const Arithmetic<S>* A;         // (H)
  double dt;                      // of every step
  const Arithmetic<S>* diagonal;  // D (H)

  // Rows of a state are padded as those of the scan.
  int64_t state() const { return N * ((P + 15) / 16 * 16); }
};

// A head of one sequence.
struct RetentionTask {
  int64_t begin, end;  // tokens
  int64_t head;
  int64_t first_chunk;  // number of the sequence's first chunk
};

// `states` (chunks, H, state()) receives the state that enters each chunk but the first of a
// sequence, for a backward pass; null: none follows.
template <typename S>
void retention_forward(const RetentionInputs<S>& in, const RetentionTask& task,
                       const StridedRows<S>& y, Arithmetic<S>* states);

template <typename S>
struct RetentionGradients {
  StridedRows<S> x, b, c;
};

template <typename S>
void retention_backward(const RetentionInputs<S>& in, const RetentionTask& task,
                        const StridedRows<const S>& dy, const Arithmetic<S>* states,
                        const RetentionGradients<S>& gradients);

}  // namespace hydramix::kernels
