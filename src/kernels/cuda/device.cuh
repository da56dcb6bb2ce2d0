// SPDX-License-Identifier: Apache-2.0
// Shared by all kernels for NVIDIA GPUs: conversions between storage and arithmetic types, accesses
// of 16 bytes, and sums over threads in a fixed order.
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

// Values in 16 bytes, the best size of one access of a thread.
template <typename S>
constexpr int kWide = 16 / static_cast<int>(sizeof(S));

// V values of at most 16 bytes in their storage type. Values that are loaded ahead take fewer
// registers this way, and no instruction waits for their conversion.
template <typename S, int V>
struct alignas(sizeof(S) * V) Packed {
  S stored[V];
  __device__ __forceinline__ float operator[](int i) const { return widen(stored[i]); }
};
template <>
struct alignas(16) Packed<BFloat16, 8> {
  uint32_t pairs[4];
  __device__ __forceinline__ float operator[](int i) const {
    return __uint_as_float(i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000u);
  }
};

template <int V, typename S>
__device__ __forceinline__ Packed<S, V> load_packed(const S* from) {
  return *reinterpret_cast<const Packed<S, V>*>(from);
}

// V consecutive values as floats, at most 16 bytes at a time. V is 1 or a power of two; `from` is
// aligned to V values, or to 16 bytes if that is less.
template <int V, typename S>
__device__ __forceinline__ void load(const S* from, float (&to)[V]) {
  constexpr int kPart = V < kWide<S> ? V : kWide<S>;
  struct alignas(sizeof(S) * kPart) Raw {
    S value[kPart];
  };
#pragma unroll
  for (int at = 0; at < V; at += kPart) {
    const Raw raw = *reinterpret_cast<const Raw*>(from + at);
#pragma unroll
    for (int i = 0; i < kPart; ++i) to[at + i] = widen(raw.value[i]);
  }
}

template <int V, typename S>
__device__ __forceinline__ void store(S* to, const float (&from)[V]) {
  constexpr int kPart = V < kWide<S> ? V : kWide<S>;
  struct alignas(sizeof(S) * kPart) Raw {
    S value[kPart];
  };
#pragma unroll
  for (int at = 0; at < V; at += kPart) {
    Raw raw;
    if constexpr (sizeof(S) == 2 && kPart % 2 == 0) {  // one instruction a pair
#pragma unroll
      for (int i = 0; i < kPart; i += 2) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(from[at + i], from[at + i + 1]);
        raw.value[i] = pair.x, raw.value[i + 1] = pair.y;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kPart; ++i) raw.value[i] = narrow<S>(from[at + i]);
    }
    *reinterpret_cast<Raw*>(to + at) = raw;
  }
}

// Whether rows `stride` apart, from `pointer` on, can be read 16 bytes at a time. Host code.
template <typename S>
inline bool is_wide(const S* pointer, int64_t stride) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 &&
         stride * static_cast<int64_t>(sizeof(S)) % 16 == 0;
}

// The sum over a warp, in every lane. The order of additions is fixed.
template <typename T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

// The sum over a block of kThreads, a multiple of 32 up to 1024; valid in thread 0. Call it once
// per kernel and type, or with a barrier in between.
template <int kThreads, typename T>
__device__ __forceinline__ T block_sum(T v) {
  constexpr int kWarps = kThreads / 32;
  __shared__ T sums[kWarps];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < kWarps ? sums[threadIdx.x] : T(0);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

// Two approximations of about one ulp each instead of an exact division. The limits are 0 and 1;
// only a NaN gives a NaN.
__device__ __forceinline__ float sigmoid(float v) {
  float e, s;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1.0f + e));
  return s;
}

template <typename I>
__host__ __device__ constexpr I ceil_div(I a, I b) {
  return (a + b - 1) / b;
}

}  // namespace hydramix::cuda
