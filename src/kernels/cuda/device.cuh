// SPDX-License-Identifier: Apache-2.0
// What the kernels for NVIDIA GPUs share: numbers in storage and in arithmetic, 16 bytes at a time,
// and sums over threads in a fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace hydramix::cuda {

using BFloat16 = __nv_bfloat16;

__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ float widen(BFloat16 v) { return __bfloat162float(v); }
template <typename S>
__device__ __forceinline__ S narrow(float v) {
  if constexpr (sizeof(S) == 2)
    return __float2bfloat16(v);
  else
    return v;
}

// Values of 16 bytes: what one thread should move at a time.
template <typename S>
constexpr int kWide = 16 / static_cast<int>(sizeof(S));

// V consecutive values as floats. V is 1, or a power of two with V values in at most 16 bytes, to
// which `from` is aligned then.
template <int V, typename S>
__device__ __forceinline__ void load(const S* from, float (&to)[V]) {
  struct alignas(sizeof(S) * V) Raw {
    S value[V];
  };
  const Raw raw = *reinterpret_cast<const Raw*>(from);
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = widen(raw.value[i]);
}

template <int V, typename S>
__device__ __forceinline__ void store(S* to, const float (&from)[V]) {
  struct alignas(sizeof(S) * V) Raw {
    S value[V];
  };
  Raw raw;
  if constexpr (sizeof(S) == 2 && V % 2 == 0) {  // one instruction a pair
#pragma unroll
    for (int i = 0; i < V; i += 2) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(from[i], from[i + 1]);
      raw.value[i] = pair.x, raw.value[i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) raw.value[i] = narrow<S>(from[i]);
  }
  *reinterpret_cast<Raw*>(to) = raw;
}

// Whether rows `stride` apart from `pointer` on can be read 16 bytes at a time. Host.
template <typename S>
inline bool is_wide(const S* pointer, int64_t stride) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 &&
         stride * static_cast<int64_t>(sizeof(S)) % 16 == 0;
}

// The sum over a warp, in every lane. The order of additions is fixed, here as everywhere.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

// 0 where the exponential overflows. An exact division would branch for every value.
__device__ __forceinline__ float sigmoid(float v) { return __fdividef(1.0f, 1.0f + __expf(-v)); }

template <typename I>
constexpr I ceil_div(I a, I b) {
  return (a + b - 1) / b;
}

}  // namespace hydramix::cuda
