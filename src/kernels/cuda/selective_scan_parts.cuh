// SPDX-License-Identifier: Apache-2.0
// Parts of the selective scan: how threads share the work, tiles of tokens in shared memory, sums
// over some lanes of a warp.
//
// A thread owns four states of a channel, so Q = N / 4 neighbouring lanes share a channel, and a
// block of 256 threads has 256 / Q channels; those of the forward pass own more (its file says
// why). A block walks over its piece of the tokens in tiles. Each dt x and softplus is computed
// once, when a tile is staged, and not by each of the Q lanes. An update of a state takes one ex2,
// which bounds the time: a multiprocessor computes 16 per cycle.
#pragma once

#include <cstring>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/selective_scan.h"
#include "kernels/cuda/softplus.cuh"

namespace hydramix::cuda::selective {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kOwn = 4;  // states of a thread
// Threads of the forward pass, which own kOwn or kManyOwn states.
constexpr int kForwardThreads = 128, kManyOwn = 8;
constexpr int kBatch = 8;  // tokens whose sums are formed together

template <int Q>
constexpr int kChannels = kThreads / Q;  // of a block
template <int Q>
constexpr int kTile = Q < 4 ? 8 * Q : 32;  // tokens; a multiple of kBatch and of Q

constexpr float kLog2e = 1.44269504f, kLn2 = 0.69314718f;

__device__ __forceinline__ float exp2_fast(float v) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v));
  return e;
}

template <typename S>
struct Arguments {
  int n, C, piece;  // piece: tokens of a block, a multiple of the tile
  bool many;        // forward: a thread owns kManyOwn states
  bool reverse;
  float dt_low, dt_high;
  const int2* bounds;
  SelectiveScanInputs<S> in;
  kernels::StridedRows<S> y;
  float* states;  // at the start of every tile: (tiles, C, N), or null
  // Between pieces, null if they are independent: the state that a piece adds, and later the one
  // that it starts from, (pieces, C, N); the sum of its dt, infinite if a sequence begins in it,
  // (pieces, C).
  float *carried, *through;
  // The backward pass.
  kernels::StridedRows<const S> dy;
  kernels::StridedRows<S> dx, ddt;
  float* dbc;                 // (blocks of channels, n, 2 N): of b, then of c
  float *dA, *dbias, *dskip;  // (pieces, C, N), (pieces, C), (pieces, C)
};

// The row of the token at `place` in the order of the scan.
template <typename S>
__device__ __forceinline__ int64_t row_of(const Arguments<S>& p, int place) {
  return p.reverse ? p.n - 1 - place : place;
}

// Whether a sequence begins at `place`.
template <typename S>
__device__ __forceinline__ bool begins(const Arguments<S>& p, int place) {
  const int row = static_cast<int>(row_of(p, place));
  const int2 sequence = __ldg(p.bounds + row);
  return row == (p.reverse ? sequence.y - 1 : sequence.x);
}

// dt in bfloat16 has 9 correct bits, so a softplus of 20 is enough; in float32 it has them all.
template <typename S>
__device__ __forceinline__ float step_with_bias(const Arguments<S>& p, float given, float bias) {
  if (p.in.bias == nullptr) return given;
  const float raw = given + bias;
  if constexpr (sizeof(S) == 4) {
    return p.in.bias == nullptr ? given : ClampedSoftplus<float>(raw, p.dt_low, p.dt_high).dt;
  } else {
    const float e = exp2_fast(-fabsf(raw) * kLog2e);
    // log(1 + e); 1 + e would round a small e.
    const float log1p = e < 0.01f ? e * (1.0f - e * (0.5f - e * 0.33333333f)) : __logf(1.0f + e);
    const float free = fmaxf(raw, 0.0f) + log1p;
    const float limited = raw != raw ? raw : fminf(fmaxf(free, p.dt_low), p.dt_high);
    return limited;
  }
}

template <typename S>
__device__ __forceinline__ float step_of(const Arguments<S>& p, float given, int channel) {
  return step_with_bias(p, given, p.in.bias != nullptr ? __ldg(p.in.bias + channel) : 0.0f);
}

// d dt / d raw from dt: sigmoid(raw) = 1 - exp(-dt), and 0 where a limit applies.
template <typename S>
__device__ __forceinline__ float slope_of(const Arguments<S>& p, float dt) {
  if (p.in.bias == nullptr) return 1.0f;
  const float small = dt * (1.0f - dt * (0.5f - dt * 0.16666667f));
  const float free = dt < 0.01f ? small : 1.0f - exp2_fast(-dt * kLog2e);
  return (dt <= p.dt_low && p.dt_low > 0) || dt >= p.dt_high ? 0.0f : free;
}

// V neighbouring channels of a token as they are stored, from `first` on; zero from C on. They are
// converted when they are needed, because an instruction that converts them waits for the load.
// `wide`: all of them exist and are aligned.
template <int V, typename S>
__device__ __forceinline__ Packed<S, V> load_row(kernels::StridedRows<const S> rows, int64_t row,
                                                 int first, int C, bool wide) {
  const S* from = rows.data + row * rows.stride + first;
  if (wide) return load_packed<V>(from);
  S some[V];
#pragma unroll
  for (int v = 0; v < V; ++v) some[v] = first + v < C ? from[v] : narrow<S>(0.0f);
  Packed<S, V> packed;
  memcpy(&packed, some, sizeof(packed));
  return packed;
}
template <typename S, int V>
__device__ __forceinline__ void store_row(kernels::StridedRows<S> rows, int64_t row, int first,
                                          int C, bool wide, const float (&from)[V]) {
  S* to = rows.data + row * rows.stride + first;
  if (wide) {
    store(to, from);
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (first + v < C) to[v] = narrow<S>(from[v]);
  }
}

// The V channels of a token that one of kBlock threads stages and stores; the i-th of its kParts in
// a tile of kTokens tokens and kWidth channels.
template <int kBlock, int kTokens, int kWidth, typename S>
struct TilePart {
  static constexpr int kEach = kTokens * kWidth / kBlock;
  static constexpr int V = kEach < kWide<S> ? kEach : kWide<S>;
  static constexpr int kPerRow = kWidth / V;
  static constexpr int kParts = kEach / V;
  using Values = Packed<S, V>;
  int token, channel;  // within the tile
  __device__ __forceinline__ explicit TilePart(int i) {
    const int number = i * kBlock + static_cast<int>(threadIdx.x);
    token = number / kPerRow, channel = number % kPerRow * V;
  }
};
template <int Q, typename S>
using Part = TilePart<kThreads, kTile<Q>, kChannels<Q>, S>;

// b and c of a tile in floats: those of lane q of a channel are one access.
template <int Q>
struct SharedColumns {
  float4 b[kTile<Q>][Q], c[kTile<Q>][Q];
};

// Loads them; positions from `end` on are zero.
template <int Q, typename S>
__device__ __forceinline__ void stage_columns(const Arguments<S>& p, int first, int end,
                                              SharedColumns<Q>& to) {
  constexpr int N = kOwn * Q;
  float* b = &to.b[0][0].x;
  float* c = &to.c[0][0].x;
  for (int i = threadIdx.x; i < kTile<Q> * N; i += kThreads) {
    const int place = first + i / N;
    const bool inside = place < end;
    const int64_t row = inside ? row_of(p, place) : 0;
    b[i] = inside ? widen(p.in.b.data[row * p.in.b.stride + i % N]) : 0.0f;
    c[i] = inside ? widen(p.in.c.data[row * p.in.c.stride + i % N]) : 0.0f;
  }
}

// Bit t: a sequence begins at position first + t. Call it in all lanes of a warp.
template <int Q, typename S>
__device__ __forceinline__ uint32_t beginnings(const Arguments<S>& p, int first, int end) {
  const int lane = threadIdx.x % 32, place = first + lane;
  return __ballot_sync(0xffffffffu, lane < kTile<Q> && place < end && begins(p, place));
}

// Sums kCount values over kLanes lanes that are kStride apart. Every lane keeps
// max(1, kCount / kLanes) of the sums, in v[0] and following; those from spread_first() on.
template <int kLanes, int kStride, int kCount>
__device__ __forceinline__ void spread_sum(float (&v)[kCount]) {
  const int at = threadIdx.x / kStride % kLanes;
  int count = kCount;
#pragma unroll
  for (int w = kLanes / 2; w >= 1; w /= 2) {
    if (count > 1) {
      count /= 2;
      const bool upper = (at & w) != 0;
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const float sent = upper ? v[i] : v[i + count];
        v[i] = (upper ? v[i + count] : v[i]) + __shfl_xor_sync(0xffffffffu, sent, w * kStride);
      }
    } else {
      v[0] += __shfl_xor_sync(0xffffffffu, v[0], w * kStride);
    }
  }
}
template <int kLanes, int kStride, int kCount>
__device__ __forceinline__ int spread_first() {
  const int at = threadIdx.x / kStride % kLanes;
  int first = 0, count = kCount;
#pragma unroll
  for (int w = kLanes / 2; w >= 1; w /= 2)
    if (count > 1) {
      count /= 2;
      first += (at & w) != 0 ? count : 0;
    }
  return first;
}
// Whether this lane is the one that writes its sums, where several lanes have the same.
template <int kLanes, int kStride, int kCount>
__device__ __forceinline__ bool spread_writes() {
  constexpr int kCopies = kLanes > kCount ? kLanes / kCount : 1;
  return threadIdx.x / kStride % kLanes % kCopies == 0;
}

}  // namespace hydramix::cuda::selective
