// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba (S6): every channel has its own step dt and its own decays A (N),
//
//   h_t = exp(dt_t A) h_{t-1} + dt_t x_t b_t,   y_t = c_t . h_t + D x_t        h (N) per channel
//
// The decays differ for all N states, so there is no small matrix to multiply by, as in Mamba-2.
// Per channel, state and token the forward pass costs an exponential and three multiply-adds, the
// backward pass an exponential and ten: bench/cores_suite.cpp lists them. Lanes of a vector are
// channels; places are walked one after the other.
//
// The backward pass recomputes the states of a chunk from the one that enters it. b and c are
// shared by all channels: their gradients are summed over the channels of a task here, over tasks
// by the caller.
#pragma once

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

struct SelectiveShape {
  int64_t C, N;  // channels, states of each
  int64_t tile;  // places of a chunk

  // Channels of a task: enough to share the sums over channels.
  static constexpr int64_t kTask = 64;
  int64_t tasks() const { return (C + kTask - 1) / kTask; }
  int64_t padded() const { return tasks() * kTask; }  // channels
};

template <typename T>
struct SelectiveInputs {
  StridedRows<const T> x, dt;  // (n, C)
  StridedRows<const T> b, c;   // (n, N)
  const T* A = nullptr;        // (N, padded C) in units of log(2), aligned to vectors
  const T* D = nullptr;        // (padded C), likewise
};

template <typename T>
struct SelectiveForward {
  SelectiveShape shape;
  SelectiveInputs<T> in;
  StridedRows<T> y;  // (n, C)
  // (chunks, tasks, N, kTask): the state that enters each chunk; or null.
  T* states = nullptr;
};

template <typename T>
struct SelectiveBackward {
  SelectiveShape shape;
  SelectiveInputs<T> in;
  StridedRows<const T> dy;         // (n, C)
  const T* states = nullptr;       // as above; null if every sequence is one chunk
  StridedRows<T> dx, ddt;          // (n, C)
  T *db = nullptr, *dc = nullptr;  // (tasks, n, N): the sum over the channels of each task
  T *dA = nullptr, *dD = nullptr;  // (sequences, N, padded C), (sequences, padded C)
  int64_t n = 0;                   // tokens
};

// The tokens of a sequence, and the number of its first chunk.
struct SelectiveRange {
  int64_t sequence, begin, end, first_chunk;
};

// Tasks [begin, end) of [0, shape.tasks()). They take turns at every chunk, so that its rows of
// tokens are read whole.
struct SelectiveTasks {
  int64_t begin, end;
};

// T is float or double.
template <typename T>
void selective_scan_forward(const SelectiveForward<T>& p, const SelectiveRange& range,
                            const SelectiveTasks& tasks);
template <typename T>
void selective_scan_backward(const SelectiveBackward<T>& p, const SelectiveRange& range,
                             const SelectiveTasks& tasks);

}  // namespace hydramix::kernels
