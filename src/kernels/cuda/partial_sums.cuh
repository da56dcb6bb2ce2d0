// SPDX-License-Identifier: Apache-2.0
// The second half of a sum over rows: adds partial sums, each over some of the rows, in their
// order.
#pragma once

#include "kernels/cuda/device.cuh"

namespace hydramix::cuda {

// Sums over the rows of partial (rows, width): columns [0, C) go to first, the others to second.
// kAdd: adds to the old values. Blocks of 32 x 32 threads.
template <bool kAdd, typename T>
__global__ void add_parts_kernel(const T* partial, int rows, int64_t width, T* first, T* second,
                                 int64_t C) {
  __shared__ T sums[32][33];
  const int64_t from = static_cast<int64_t>(blockIdx.x) * 32;
  T sum = 0;
  if (from + threadIdx.x < width)
    for (int r = static_cast<int>(threadIdx.y); r < rows; r += 32)
      sum += partial[r * width + from + threadIdx.x];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const int64_t column = from + threadIdx.y;
  if (threadIdx.x != 0 || column >= width) return;
  T& to = column < C ? first[column] : second[column - C];
  to = kAdd ? to + sum : sum;
}

// second: null if the width is C; otherwise the width is 2 C.
template <bool kAdd, typename T>
cudaError_t launch_add_parts(const T* partial, int64_t rows, int64_t C, T* first, T* second,
                             cudaStream_t stream) {
  const int64_t width = second == nullptr ? C : 2 * C;
  add_parts_kernel<kAdd>
      <<<static_cast<unsigned>(ceil_div<int64_t>(width, 32)), dim3(32, 32), 0, stream>>>(
          partial, static_cast<int>(rows), width, first, second, C);
  return cudaGetLastError();
}

}  // namespace hydramix::cuda
