// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan of scan.h without tensor cores: any sizes (H a multiple of G), either
// storage type, any alignment, shift 0 or 1 with one direction or both, products and sums of
// float32. It serves what the tensor cores' kernels refuse, and is as exact as float32 allows:
// sums of decays are kept in float64.
//
// Layouts are those of scan.h; here a layout's `segment` and `carries` mean nothing. A is at most
// zero. Every sum has a fixed order: the same call gives the same bits.
#pragma once

#include "kernels/cuda/scan.h"

namespace hydramix::cuda {

// Rows are tokens; *_row is the distance of rows, in values. S is float or __nv_bfloat16.
template <typename S>
struct PlainScanDirectionInputs {
  const void* dt = nullptr;            // (n, H) before softplus, float if shape.dt_is_float
  const S *b = nullptr, *c = nullptr;  // (n, G, N)
  int64_t dt_row = 0, b_row = 0, c_row = 0;
};

template <typename S>
struct PlainScanInputs {
  const S* x = nullptr;  // (n, H, P)
  int64_t x_row = 0;
  PlainScanDirectionInputs<S> direction[2];
  const float *dt_bias = nullptr, *A = nullptr;  // (H)
  const float* diagonal = nullptr;               // (H) added to delta; null: nothing
  const void* delta = nullptr;                   // (n, H); null: zero
  int64_t delta_row = 0;
};

// Gradients; null: not wanted.
template <typename S>
struct PlainScanDirectionGradients {
  void* dt = nullptr;  // (n, H) in the type of dt
  S *b = nullptr, *c = nullptr;
  int64_t dt_row = 0, b_row = 0, c_row = 0;
};

template <typename S>
struct PlainScanGradients {
  S* x = nullptr;  // (n, H, P)
  int64_t x_row = 0;
  PlainScanDirectionGradients<S> direction[2];
  float *dt_bias = nullptr, *A = nullptr, *diagonal = nullptr;  // (H)
  void* delta = nullptr;                                        // (n, H), in the type of delta
  int64_t delta_row = 0;
};

// Bytes of what a backward pass wants to see again: decays, and states where there are any.
std::size_t plain_scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout);
// Bytes of scratch memory of a call.
std::size_t plain_scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t plain_scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout);

// saved and scratch are aligned to 16 bytes.
template <typename S>
cudaError_t plain_scan_forward(const ScanShape& shape, const ScanLayout& layout,
                               const PlainScanInputs<S>& in, void* saved, void* scratch, S* y,
                               int64_t y_row, cudaStream_t stream);
template <typename S>
cudaError_t plain_scan_backward(const ScanShape& shape, const ScanLayout& layout,
                                const PlainScanInputs<S>& in, const void* saved, void* scratch,
                                const S* dy, int64_t dy_row, const PlainScanGradients<S>& out,
                                cudaStream_t stream);

}  // namespace hydramix::cuda
