// SPDX-License-Identifier: Apache-2.0
// The parameters of the complex and of the gated scan, for the kernels of both devices, as params.h
// has those of the convolution, the norms and the quasiseparable scan.
#pragma once

#include "kernels/params.h"

namespace hydramix::kernels {

// ---- h_t = lambda h_{t-1} + x_t with a complex lambda per channel (ops/complex_scan.h) ----

struct ComplexScanShape {
  int64_t n, C;  // tokens of all sequences end to end, channels
  // For a GPU: the length of all sequences if they are equally long, else 0. States need not be
  // carried between the pieces that blocks work on if each begins with a sequence.
  int64_t length = 0;
};

template <typename S>
struct ComplexScanForward {
  ComplexScanShape shape;
  const double *re = nullptr, *im = nullptr;  // lambda (C)
  StridedRows<const S> x;                     // (n, C)
  StridedRows<S> y;                           // (n, 2, C): real parts, then imaginary parts
  void* workspace = nullptr;                  // on a GPU
};

template <typename S>
struct ComplexScanBackward {
  ComplexScanShape shape;
  const double *re = nullptr, *im = nullptr;
  StridedRows<const S> y, dy;  // (n, 2, C)
  StridedRows<S> dx;           // (n, C)
  // (C) on a GPU; (sequences, C) on the CPU, where the caller sums over sequences.
  double *dre = nullptr, *dim = nullptr;
  void* workspace = nullptr;  // on a GPU
};

// ---- The scan with a gate per channel of the keys (ops/gated_scan.h) ----

struct GatedScanShape {
  int64_t n, H, N, P;  // tokens of all sequences end to end, heads, keys and values per head
  // For a GPU: the length of all sequences if they are equally long, else 0. States need not be
  // carried between blocks if each walks through whole sequences.
  int64_t length = 0;
  bool reverse = false;  // for a GPU: from the last token of a sequence to its first
  int64_t tile = 0;      // for the CPU: positions of a chunk
};

// G is the type of the gates. On the CPU it is S.
template <typename S, typename G = S>
struct GatedScanInputs {
  StridedRows<const S> q, k;  // (n, H, N)
  StridedRows<const G> g;     // (n, H, N), at most 0
  StridedRows<const S> x;     // (n, H, P)
};

template <typename S, typename G = S>
struct GatedScanForward {
  GatedScanShape shape;
  GatedScanInputs<S, G> in;
  StridedRows<S> y;  // (n, H, P)
  // For the backward pass: gated_scan_states() values on a GPU. On the CPU (chunks, H, N, padded
  // P), the state that enters each chunk, or null.
  S* states = nullptr;
  void* workspace = nullptr;  // on a GPU
};

template <typename S, typename G = S>
struct GatedScanBackward {
  GatedScanShape shape;
  GatedScanInputs<S, G> in;
  const S* states = nullptr;  // of the forward pass; null on the CPU if every sequence is one chunk
  StridedRows<const S> dy;    // (n, H, P)
  StridedRows<S> dq, dk;      // (n, H, N)
  StridedRows<G> dg;          // (n, H, N)
  StridedRows<S> dx;          // (n, H, P)
  void* workspace = nullptr;  // on a GPU
};

}  // namespace hydramix::kernels
