// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan in chunks (docs/math.md, "The scan in chunks"), both directions at once:
//
//   y_i = sum_{j <= i - shift} c_{i-shift} . b_j exp(A sum_{t=j+1}^{i-shift} dt_t) dt_j x_j
//       + sum_{j >= i + shift} c_{i+shift} . b_j exp(A sum_{t=i+shift}^{j-1} dt_t) dt_j x_j
//       + delta_i x_i                                      dt = clamp(softplus(raw + bias))
//
// The first sum is the forward direction, the second the backward. Each has its own b, c and dt.
// shift = 1 is Hydra; shift = 0 with one direction is Mamba-2. Inside a chunk both triangles and
// the diagonal are one matrix. Tokens outside the chunk contribute through two states (N x P), one
// per direction.
//
// The steps of a call. The caller runs the tasks of each step in parallel:
//   prepare   per chunk               dt, its prefix sums, b and c transposed, C B^T of each group
//   forward   per sequence, head task the outputs, and the states at the borders of chunks
//   backward  per sequence, head task the contribution of the task's heads to every gradient
//   finish    per chunk               gradients of b, c and raw dt, summed over head tasks in order
//
// If a task has all heads of a group, it prepares and finishes the group itself, chunk by chunk in
// the cache: with keys for every head, b, c and C B^T are several times as large as x.
//
// The result of a sequence depends neither on other sequences nor on the number of threads.
#pragma once

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

enum Direction { kForward = 0, kBackward = 1 };

struct ChunkShape : ScanShape {
  int64_t tile;  // positions of a chunk

  // Scratch rows are padded to whole vectors of any instruction set: 64 bytes of float32.
  static constexpr int64_t kPad = 16;
  static int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }
  int64_t T() const { return padded(tile); }
  int64_t Pp() const { return padded(P); }
  int64_t state() const { return N * Pp(); }  // of one head and direction
  int64_t heads_per_group() const { return H / G; }

  // Heads of one group that form a task: enough to share what prepare left in the cache and to keep
  // the sums over heads few, and still several tasks for one sequence.
  static constexpr int64_t kTaskHeads = 6;
  int64_t tasks_per_group() const { return (heads_per_group() + kTaskHeads - 1) / kTaskHeads; }
  int64_t tasks() const { return G * tasks_per_group(); }
  // Whether tasks prepare and finish their groups. With one group there would be only one task.
  bool own_groups() const { return G > 1 && tasks_per_group() == 1; }
  // Matrices of chunks are lower triangular.
  bool causal() const { return on[kForward] && !on[kBackward]; }
};

// A run of rows of one sequence.
struct ScanChunk {
  int64_t begin, rows;  // tokens
  bool first, last;     // of its sequence
};

// Per chunk and group, shared by its heads: sizes and offsets.
struct GroupPlan {
  explicit GroupPlan(const ChunkShape& shape) : s(shape) {}
  const ChunkShape s;
  int64_t b(int d) const { return d * s.N * s.T(); }          // (N, T)
  int64_t c(int d) const { return b(2) + d * s.N * s.T(); }   // (N, T)
  int64_t cb() const { return c(2); }                         // (tile, T)
  int64_t diagonal() const { return cb() + s.tile * s.T(); }  // (T)
  int64_t size() const { return diagonal() + s.T(); }
};

// Results of prepare: sizes and offsets inside one block of memory per chunk.
struct PreparedPlan {
  explicit PreparedPlan(const ChunkShape& shape) : s(shape) {}
  const ChunkShape s;
  int64_t dt(int d, int64_t h) const { return (d * s.H + h) * s.T(); }  // (T)
  int64_t group(int64_t g) const { return dt(2, 0) + g * GroupPlan(s).size(); }
  int64_t size() const { return s.own_groups() ? group(0) : group(s.G); }
  // Prefix sums of dt A, exclusive, in float64: entry t sums the positions before t, t = 0 .. rows.
  int64_t sums(int d, int64_t h) const { return (d * s.H + h) * (s.T() + 1); }
  int64_t sums_size() const { return sums(2, 0); }
};

// Results of backward for a chunk: per head task, and per head.
struct PartialPlan {
  explicit PartialPlan(const ChunkShape& shape) : s(shape) {}
  const ChunkShape s;
  int64_t cb() const { return 0; }                                     // (tile, T)
  int64_t b(int d) const { return s.tile * s.T() + d * s.N * s.T(); }  // (N, T)
  int64_t c(int d) const { return b(2) + d * s.N * s.T(); }            // (N, T)
  int64_t diagonal() const { return c(2); }                            // (T)
  int64_t size() const { return diagonal() + s.T(); }
  int64_t dt(int d, int64_t h) const { return (d * s.H + h) * s.T(); }  // per head: (T)
  int64_t dt_size() const { return dt(2, 0); }
};

// How a call is cut into chunks, and the memory that its tasks share. The part of chunk k begins at
// k times the plan's size.
template <typename T>
struct ScanWorkspace {
  ChunkShape shape;
  const ScanChunk* chunks = nullptr;  // (chunk_count)
  int64_t chunk_count = 0;
  const int64_t* first_chunk = nullptr;  // (sequences + 1)
  T* prepared = nullptr;                 // (chunks, PreparedPlan::size)
  double* sums = nullptr;                // (chunks, PreparedPlan::sums_size)
  // The state with which a direction enters each chunk, (chunks, H, N, Pp). That of the forward
  // direction is kept for a backward pass only, and null otherwise.
  T* states[2] = {};

  // Used by the backward pass only:
  T* dstates = nullptr;  // (chunks, H, N, Pp): of the backward direction
  T* partial = nullptr;  // (tasks per group, chunks, G, PartialPlan::size); null for own groups
  T* ddt = nullptr;      // (chunks, PartialPlan::dt_size)
  // Gradients of A and the diagonal, summed over each sequence; the caller sums over sequences.
  double* dA = nullptr;    // (sequences, H)
  T* ddiagonal = nullptr;  // (sequences, H); not used if delta is per token
};

// task is in [0, shape.tasks()).
template <typename S>
void scan_prepare(const ScanForward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, int64_t chunk);
template <typename S>
void scan_forward(const ScanForward<S>& p, const ScanWorkspace<Arithmetic<S>>& work,
                  int64_t sequence, int64_t task);
template <typename S>
void scan_backward(const ScanBackward<S>& p, const ScanWorkspace<Arithmetic<S>>& work,
                   int64_t sequence, int64_t task);
template <typename S>
void scan_finish(const ScanBackward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, int64_t chunk);

}  // namespace hydramix::kernels
