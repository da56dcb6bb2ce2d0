// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/token_tiles.h"
#include "kernels/cuda/uniform_tiles.h"

namespace hydramix::cuda {
namespace {

__global__ void fill(int n, int length, int tile, int tiles, int2* bounds, int* begins) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (t < n) {
    const int first = t - t % length;
    bounds[t] = {first, first + length};
  }
  // tile < 2^7 and n < 2^30: the product stays an int, since t <= tiles <= n / tile + 1.
  if (t <= tiles) begins[t] = min(t * tile, n);
}

}  // namespace

cudaError_t fill_uniform_table(int64_t n, int64_t length, int tiles, int2* bounds, int* begins,
                               cudaStream_t stream) {
  constexpr int kThreads = 256;
  // A token at least per tile, and one begin more.
  const auto blocks = static_cast<unsigned>((n + kThreads) / kThreads);
  fill<<<blocks, kThreads, 0, stream>>>(static_cast<int>(n), static_cast<int>(length),
                                        static_cast<int>(uniform_tile(length)), tiles, bounds,
                                        begins);
  return cudaGetLastError();
}

}  // namespace hydramix::cuda
