// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba-1 (S6) over packed sequences, on NVIDIA GPUs:
//
//   dt_t = softplus(raw_t + bias), within limits; or given
//   h_t  = exp(dt_t A) h_{t-1} + dt_t x_t b_t,     y_t = c_t . h_t + skip x_t
//
// Every channel has its own dt, skip and A, a diagonal of N values; b and c are shared by all
// channels. A sequence starts from h = 0, so a value that is not finite stays within its sequence.
//
// Launchers check only the shape. They allocate nothing and do not synchronise. Sums have an order
// that depends on the shape alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/params.h"

namespace hydramix::cuda {

struct SelectiveScanShape {
  int64_t n, C, N;  // tokens of all sequences end to end, channels, states per channel
  // The length of all sequences if they are equally long, else 0. States need not be carried
  // between the pieces that blocks work on if each begins with a sequence.
  int64_t length = 0;
  bool reverse = false;  // from the last token of a sequence to its first
  float dt_low = 0, dt_high = 0;
};

// N is 4, 8, 16, 32 or 64; S is float or __nv_bfloat16.
bool selective_scan_fits(const SelectiveScanShape& shape);

template <typename S>
struct SelectiveScanInputs {
  kernels::StridedRows<const S> x, dt;  // (n, C)
  kernels::StridedRows<const S> b, c;   // (n, N)
  const float* A = nullptr;             // (C, N), at most 0
  const float* bias = nullptr;          // (C), or null: dt is the step itself
  const float* skip = nullptr;          // (C), or null
};

template <typename S>
struct SelectiveScanForward {
  SelectiveScanShape shape;
  SelectiveScanInputs<S> in;
  kernels::StridedRows<S> y;
  float* states = nullptr;  // selective_scan_states() floats for the backward pass, or null
  void* workspace = nullptr;
};

template <typename S>
struct SelectiveScanBackward {
  SelectiveScanShape shape;
  SelectiveScanInputs<S> in;
  const float* states = nullptr;  // of the forward pass
  kernels::StridedRows<const S> dy;
  kernels::StridedRows<S> dx, ddt, db, dc;
  float *dA = nullptr, *dbias = nullptr;  // (C, N), (C)
  float* dskip = nullptr;                 // (C), or null
  void* workspace = nullptr;
};

int64_t selective_scan_states(const SelectiveScanShape& shape);
std::size_t selective_scan_forward_workspace(const SelectiveScanShape& shape);  // bytes
std::size_t selective_scan_backward_workspace(const SelectiveScanShape& shape);

// bounds (n): the first token of a token's sequence and one past its last.
template <typename S>
cudaError_t selective_scan_forward(const SelectiveScanForward<S>& pass, const int2* bounds,
                                   cudaStream_t stream);
template <typename S>
cudaError_t selective_scan_backward(const SelectiveScanBackward<S>& pass, const int2* bounds,
                                    cudaStream_t stream);

}  // namespace hydramix::cuda
