// SPDX-License-Identifier: Apache-2.0
// Parts of the walk of a warp down the rows of some columns: values in their storage type,
// asynchronous copies, the run of tokens, the taps of the channels, and which taps are inside a
// sequence.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/cuda/conv_any.cuh"

namespace hydramix::cuda::conv {

constexpr int kLanes = 32, kWarps = 4, kThreads = kLanes * kWarps;

// V values as they are stored, in one access.
template <int V, typename S, int kBytes = V* static_cast<int>(sizeof(S))>
using Stored = std::conditional_t<
    kBytes == 2, uint16_t,
    std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 8, uint2, uint4>>>;

template <int V, typename S>
__device__ __forceinline__ Stored<V, S> fetch(const S* from) {
  return *reinterpret_cast<const Stored<V, S>*>(from);
}
template <typename S, int V>
__device__ __forceinline__ void unpack(Stored<V, S> from, float (&to)[V]) {
  if constexpr (sizeof(S) == 2 && V > 1) {  // a word is two values, the upper half a float as it is
    uint32_t words[V / 2];
    memcpy(words, &from, sizeof(words));
#pragma unroll
    for (int v = 0; v < V; ++v)
      to[v] = __uint_as_float(v % 2 == 0 ? words[v / 2] << 16 : words[v / 2] & 0xffff0000u);
  } else {
    S values[V];
    memcpy(values, &from, sizeof(values));
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = widen(values[v]);
  }
}

// Asynchronous copies to a slot in shared memory that only this thread reads. Copies in flight take
// no registers. They finish in the order of their groups.
template <int V, typename S>
__device__ __forceinline__ void copy_ahead(Stored<V, S>* slot, const S* from) {
  constexpr int kBytes = sizeof(Stored<V, S>);
  if constexpr (kBytes < 4)
    *slot = fetch<V>(from);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(slot))),
                 "l"(from), "n"(kBytes)
                 : "memory");
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups>
__device__ __forceinline__ void wait_for_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// The same columns of the next row. One addition; otherwise the compiler keeps many multiples of
// the stride in registers. The compiler then no longer knows the address space of the pointer.
template <typename P>
__device__ __forceinline__ void advance(P*& pointer, int64_t row) {
  asm("add.s64 %0, %0, %1;" : "+l"(pointer) : "l"(row * static_cast<int64_t>(sizeof(P))));
}

// Rows 0 to K - 1 of the tile are the taps of this block's channels, row K is the bias.
template <int K, int V, typename S>
__device__ __forceinline__ void stage_taps(const Arguments<S>& p,
                                           float (&tile)[K + 1][kLanes * V]) {
  const int first = blockIdx.x * kLanes * V;
  const int width = p.C - first;
  const int thread = threadIdx.y * kLanes + threadIdx.x;
  for (int i = thread; i < kLanes * V * K; i += kThreads)
    tile[i % K][i / K] = i / K < width ? p.weight[int64_t{first} * K + i] : 0.0f;
  for (int i = thread; i < kLanes * V; i += kThreads)
    tile[K][i] = p.bias != nullptr && i < width ? p.bias[first + i] : 0.0f;
  __syncthreads();
}

// The first token of this warp's run; that of warp + 1 is where it ends.
template <typename S>
__device__ __forceinline__ int run_begin(const Arguments<S>& p, int warp) {
  const int64_t begin = (int64_t{blockIdx.y} * kWarps + warp) * p.run;
  return static_cast<int>(begin < p.n ? begin : p.n);
}

// The bounds of a token's sequence; a token outside has those of the nearest inside.
template <typename S>
__device__ __forceinline__ int2 sequence_of(const Arguments<S>& p, int token) {
  return __ldg(p.bounds + min(max(token, 0), p.n - 1));
}

// Bits from to to - 1, of 0 to K - 1.
template <int K>
__device__ __forceinline__ unsigned bits(int from, int to) {
  return ((1u << min(max(to, 0), K)) - 1) & ~((1u << min(max(from, 0), K)) - 1);
}

}  // namespace hydramix::cuda::conv
