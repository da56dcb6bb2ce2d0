// SPDX-License-Identifier: Apache-2.0
// The arguments of all kernels of the convolution, and plain kernels for widths that do not fit
// into registers: one thread per value, which reads every tap from memory. They are correct for any
// width, but slow.
#pragma once

#include "kernels/cuda/device.cuh"

namespace hydramix::cuda::conv {

template <typename S>
struct Arguments {
  int n, K, centre, run;  // run: tokens of a warp
  int C, silu;
  const int2* bounds;
  const float *weight, *bias;
  const S *x, *dy;
  S *y, *dx;
  int64_t x_row, y_row, dy_row, dx_row;
  float* partial;  // (parts, K + 1, C)
  float* g;        // (n, C), for any width only: the gradient before SiLU
};

// The derivative of v sigmoid(v), given both.
__device__ __forceinline__ float silu_slope(float v, float sigmoid) {
  return fmaf(v * sigmoid, 1.0f - sigmoid, sigmoid);
}

constexpr int kAnyTokens = 8;  // of a block of 32 channels

template <typename S>
__device__ float before_silu(const Arguments<S>& p, int t, int c) {
  const int2 sequence = p.bounds[t];
  const int from = max(0, sequence.x + p.centre - t), to = min(p.K, sequence.y + p.centre - t);
  float u = p.bias == nullptr ? 0.0f : p.bias[c];
  for (int k = from; k < to; ++k)
    u = fmaf(p.weight[int64_t{c} * p.K + k], widen(p.x[(t + k - p.centre) * p.x_row + c]), u);
  return u;
}

template <typename S>
__global__ void any_forward_kernel(const Arguments<S> p) {
  const int t = blockIdx.x * kAnyTokens + threadIdx.y;
  const int c = blockIdx.y * 32 + threadIdx.x;
  if (t >= p.n || c >= p.C) return;
  const float u = before_silu(p, t, c);
  p.y[t * p.y_row + c] = narrow<S>(c < p.silu ? u * sigmoid(u) : u);
}

template <typename S>
__global__ void any_gradient_kernel(const Arguments<S> p) {
  const int t = blockIdx.x * kAnyTokens + threadIdx.y;
  const int c = blockIdx.y * 32 + threadIdx.x;
  if (t >= p.n || c >= p.C) return;
  float g = widen(p.dy[t * p.dy_row + c]);
  if (c < p.silu) {
    const float u = before_silu(p, t, c);
    g *= silu_slope(u, sigmoid(u));
  }
  p.g[int64_t{t} * p.C + c] = g;
}

template <typename S>
__global__ void any_input_kernel(const Arguments<S> p) {
  const int t = blockIdx.x * kAnyTokens + threadIdx.y;
  const int c = blockIdx.y * 32 + threadIdx.x;
  if (t >= p.n || c >= p.C) return;
  const int2 sequence = p.bounds[t];
  // x[t] was read by outputs t - k + centre.
  const int from = max(0, t + p.centre - sequence.y + 1);
  const int to = min(p.K, t + p.centre - sequence.x + 1);
  float sum = 0.0f;
  for (int k = from; k < to; ++k)
    sum = fmaf(p.weight[int64_t{c} * p.K + k], p.g[int64_t{t - k + p.centre} * p.C + c], sum);
  p.dx[t * p.dx_row + c] = narrow<S>(sum);
}

// The contribution of the `tokens` tokens of part blockIdx.y to the gradients of each tap and of
// the bias.
template <typename S>
__global__ void any_taps_kernel(const Arguments<S> p, int64_t tokens) {
  const int64_t k = int64_t{blockIdx.x} * kAnyTokens + threadIdx.y;
  const int c = blockIdx.z * 32 + threadIdx.x;
  if (k > p.K || c >= p.C) return;
  const int64_t begin = blockIdx.y * tokens, end = min(int64_t{p.n}, begin + tokens);
  float sum = 0.0f;
  for (int64_t t = begin; t < end; ++t) {
    const float g = p.g[t * p.C + c];
    if (k == p.K) {
      sum += g;
      continue;
    }
    const int2 sequence = p.bounds[t];
    const int64_t row = t + k - p.centre;
    if (row >= sequence.x && row < sequence.y) sum = fmaf(g, widen(p.x[row * p.x_row + c]), sum);
  }
  p.partial[(blockIdx.y * int64_t{p.K + 1} + k) * p.C + c] = sum;
}

// dweight (C, K) and dbias (C), if wanted, from the sums of `parts` parts: eight threads per value
// sum every eighth part each, then their sums are added in order.
constexpr int kSlices = 8;
__global__ void sum_parts_kernel(const float* partial, int parts, int64_t K, int64_t C,
                                 float* dweight, float* dbias) {
  __shared__ float slices[kSlices][32];
  const int64_t i = int64_t{blockIdx.x} * 32 + threadIdx.x, values = (K + 1) * C;
  float sum = 0.0f;
  if (i < values)
#pragma unroll 4
    for (int part = threadIdx.y; part < parts; part += kSlices) sum += partial[part * values + i];
  slices[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= values) return;
  for (int slice = 1; slice < kSlices; ++slice) sum += slices[slice][threadIdx.x];
  const int64_t k = i / C, c = i % C;
  if (k < K)
    dweight[c * K + k] = sum;
  else if (dbias != nullptr)
    dbias[c] = sum;
}

}  // namespace hydramix::cuda::conv
