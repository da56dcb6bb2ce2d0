// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan in chunks (docs/math.md, "The scan in chunks"), both directions at once:
//
//   y_i = sum_{j <= i - shift} c_{i-shift} . b_j exp(A sum_{t=j+1}^{i-shift} dt_t) dt_j x_j forward
//       + sum_{j >= i + shift} c_{i+shift} . b_j exp(A sum_{t=i+shift}^{j-1} dt_t) dt_j x_j
//       backward
//       + delta_i x_i                                      dt = clamp(softplus(raw + bias))
//
// with own b, c, dt per direction. shift = 1 is Hydra; shift = 0 with one direction is Mamba-2.
// Inside a chunk both triangles and the diagonal are one matrix; what lies outside the chunk comes
// through two states (N x P), one per direction.
//
// The work of a call, each step in parallel over its tasks (the caller's business):
//   prepare   per chunk               dt, its running sums, b and c transposed, C B^T of each group
//   forward   per sequence, head task the outputs, and the states at the chunks' borders
//   backward  per sequence, head task what one task's heads add to every gradient
//   finish    per chunk               gradients of b, c and raw dt, summed over head tasks in order
//
// Nothing here depends on which other sequences there are, nor on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

enum Direction { kForward = 0, kBackward = 1 };

struct ScanShape {
  int64_t H, P, G, N;
  int64_t tile;   // places of a chunk
  int64_t shift;  // 0 or 1
  bool on[2];     // which directions there are
  double dt_low, dt_high;

  // Scratch rows are padded to whole vectors of any instruction set: 64 bytes of float32.
  static constexpr int64_t kPad = 16;
  static int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }
  int64_t T() const { return padded(tile); }
  int64_t Pp() const { return padded(P); }
  int64_t state() const { return N * Pp(); }  // of one head and direction
  int64_t heads_per_group() const { return H / G; }

  // Heads of one group that a task takes together: enough to share what prepare() left in cache and
  // to keep the sums over heads few, and still several tasks for one sequence.
  static constexpr int64_t kTaskHeads = 6;
  int64_t tasks_per_group() const { return (heads_per_group() + kTaskHeads - 1) / kTaskHeads; }
  int64_t tasks() const { return G * tasks_per_group(); }
};

// A run of rows of one sequence.
struct ScanChunk {
  int64_t begin, rows;  // tokens
  bool first, last;     // of its sequence
};

// What prepare() makes of a chunk: sizes and places inside one block of memory per chunk.
struct PreparedPlan {
  explicit PreparedPlan(const ScanShape& shape) : s(shape) {}
  const ScanShape s;
  int64_t dt(int d, int64_t h) const { return (d * s.H + h) * s.T(); }                  // (T)
  int64_t b(int d, int64_t g) const { return dt(2, 0) + (d * s.G + g) * s.N * s.T(); }  // (N, T)
  int64_t c(int d, int64_t g) const { return b(2, 0) + (d * s.G + g) * s.N * s.T(); }   // (N, T)
  int64_t cb(int64_t g) const { return c(2, 0) + g * s.tile * s.T(); }                  // (tile, T)
  int64_t diagonal(int64_t g) const { return cb(s.G) + g * s.T(); }                     // (T)
  int64_t size() const { return diagonal(s.G); }
  // Running sums of dt A, exclusive, in float64: entry t sums the places before t, t = 0 .. rows.
  int64_t sums(int d, int64_t h) const { return (d * s.H + h) * (s.T() + 1); }
  int64_t sums_size() const { return sums(2, 0); }
};

// What backward() leaves of a chunk per head task, and per head.
struct PartialPlan {
  explicit PartialPlan(const ScanShape& shape) : s(shape) {}
  const ScanShape s;
  int64_t cb() const { return 0; }                                     // (tile, T)
  int64_t b(int d) const { return s.tile * s.T() + d * s.N * s.T(); }  // (N, T)
  int64_t c(int d) const { return b(2) + d * s.N * s.T(); }            // (N, T)
  int64_t diagonal() const { return c(2); }                            // (T)
  int64_t size() const { return diagonal() + s.T(); }
  int64_t dt(int d, int64_t h) const { return (d * s.H + h) * s.T(); }  // per head: (T)
  int64_t dt_size() const { return dt(2, 0); }
};

// Inputs of one direction. Token t is at t * row; the N values of group g follow at g * N.
template <typename S>
struct ScanInputs {
  const Arithmetic<S>* dt;  // raw, (tokens, H)
  const S *b, *c;           // (tokens, G, N)
  int64_t dt_row, b_row, c_row;
};
template <typename S>
struct ScanGradients {
  Arithmetic<S>* dt;  // (tokens, H)
  S *b, *c;           // (tokens, G, N)
  int64_t dt_row, b_row, c_row;
};

// The rest of what a head needs.
template <typename S>
struct ScanOperands {
  const S* x;  // (tokens, H, P)
  int64_t x_row;
  const Arithmetic<S>* delta;  // (tokens, H), or (H) with delta_row 0
  int64_t delta_row;
};

// Workspace of a whole call; chunk k's part is at k times the plan's size.
template <typename T>
struct ScanWorkspace {
  T* prepared;
  double* sums;
  // States at the border of each chunk, (chunks, H, N, Pp): what a direction brings into it. That
  // of the forward direction is kept for a backward pass only; null otherwise.
  T* states[2];
};

template <typename S>
struct ScanBackward {
  const S* dy;  // (tokens, H, P)
  int64_t dy_row;
  S* dx;  // (tokens, H, P)
  int64_t dx_row;
  Arithmetic<S>* ddelta;   // (tokens, H), or (sequences, H) when delta_row is 0
  Arithmetic<S>* dstates;  // (chunks, H, N, Pp): of the backward direction, scratch of the call
  Arithmetic<S>* partial;  // (tasks per group, chunks, G, PartialPlan::size)
  Arithmetic<S>* ddt;      // (chunks, PartialPlan::dt_size)
  double* dA;              // (sequences, H)
};

template <typename S>
void scan_prepare(const ScanShape& shape, const ScanChunk& chunk, const ScanInputs<S> inputs[2],
                  const Arithmetic<S>* dt_bias, const Arithmetic<S>* A, Arithmetic<S>* prepared,
                  double* sums);

// chunks[first .. first + count) are the sequence; task is in [0, shape.tasks()).
template <typename S>
void scan_forward(const ScanShape& shape, const ScanChunk* chunks, int64_t first, int64_t count,
                  int64_t task, const ScanOperands<S>& operands,
                  const ScanWorkspace<Arithmetic<S>>& work, S* y, int64_t y_row);

template <typename S>
void scan_backward(const ScanShape& shape, const ScanChunk* chunks, int64_t chunk_count,
                   int64_t first, int64_t count, int64_t sequence, int64_t task,
                   const ScanOperands<S>& operands, const Arithmetic<S>* A,
                   const ScanWorkspace<Arithmetic<S>>& work, const ScanBackward<S>& out);

template <typename S>
void scan_finish(const ScanShape& shape, const ScanChunk* chunks, int64_t chunk_count,
                 int64_t chunk, const ScanInputs<S> inputs[2], const Arithmetic<S>* dt_bias,
                 const Arithmetic<S>* prepared, const Arithmetic<S>* partial,
                 const Arithmetic<S>* ddt, const ScanGradients<S> gradients[2]);

}  // namespace hydramix::kernels
