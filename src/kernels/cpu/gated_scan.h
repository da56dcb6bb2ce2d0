// SPDX-License-Identifier: Apache-2.0
// The scan with a gate per channel of the keys, as in gated linear attention. Per head, with the
// state h (N, P) and gates alpha_t = exp(g_t), g_t <= 0:
//
//   h_t = diag(alpha_t) h_{t-1} + k_t x_t^T,   y_t = h_t^T q_t
//   M_ij = sum_n q_in k_jn prod_{m=j+1}^{i} alpha_mn   for i >= j
//
// A sequence is walked by blocks of kBlock positions. All decays are products of gates over their
// own range, formed by multiplication, so that a gate of zero is exact:
//
//   inside a block     M row by row, a running product for every pair of positions
//   blocks before      y += (q * enter) h, from the start of the block
//   the next state     h' = diag(whole) h + (k * leave)^T x, to the end of the block
//
// The states between chunks of several blocks are kept for the backward pass, which computes those
// inside a chunk again. The gradient of g_t is the sum of all terms of M that contain alpha_t.
// Inside a chunk that is a suffix sum of q dq - k dk; terms that reach beyond its end are in
// <h, dh> at the end.
#pragma once

#include "kernels/cpu/storage.h"
#include "kernels/recurrence_params.h"

namespace hydramix::kernels {

struct GatedChunkShape : GatedScanShape {
  explicit GatedChunkShape(const GatedScanShape& shape) : GatedScanShape(shape) {}

  static constexpr int64_t kBlock = 16;
  // Scratch rows are whole vectors of any instruction set.
  static int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }
  int64_t state() const { return N * padded(P); }  // of one head
};

// The tokens of a sequence, and the number of its first chunk.
struct GatedScanRange {
  int64_t begin, end, first_chunk;
};

// One sequence and head. T is float or double.
template <typename T>
void gated_scan_forward(const GatedScanForward<T>& p, const GatedScanRange& range, int64_t head);
template <typename T>
void gated_scan_backward(const GatedScanBackward<T>& p, const GatedScanRange& range, int64_t head);

}  // namespace hydramix::kernels
