// SPDX-License-Identifier: Apache-2.0
// The forward pass. A block walks down its piece of the tokens, tile by tile. While it
// computes one tile, it loads the next into registers; one barrier separates tiles. Pieces that
// begin in the middle of a sequence need the state there: then a first pass finds the state that
// each piece adds and by how much it decays an earlier one, and a second one adds them up, piece by
// piece.
//
// Every thread reads the b and c of its states from shared memory, 16 bytes in a cycle, so that a
// channel costs as many cycles for them as for its N ex2. The two overlap, and everything else that
// goes through shared memory is laid out without bank conflicts. A thread has eight states, which
// hide the latencies of each other; or four, where there would be too few warps.
//
// Bytes at n tokens and C channels of bfloat16: 6 n C, and 4 n C N / 32 for the states at tiles.
#include <type_traits>

#include "kernels/cuda/selective_scan_launch.cuh"
#include "kernels/cuda/selective_scan_parts.cuh"

namespace hydramix::cuda::selective {
namespace {

template <int N_, int kOwn_>
struct Plan {
  static constexpr int N = N_, kOwn = kOwn_, Q = N / kOwn;
  static constexpr int kBlock = kForwardThreads, kChannels = kBlock / Q;
  static constexpr int T = N < 16 ? 2 * N : 32;  // tokens of a tile: that of the backward pass
  static constexpr int kGroup = Q < 8 ? 8 : Q;  // tokens whose sums over states are formed together
  // Lanes of a channel add to rows of y that are 4 apart: the padding keeps them in other banks.
  static constexpr int kRowOfY = kChannels + (Q == 2 || Q == 4 ? 4 : 0);
};

template <class P>
struct alignas(16) ForwardTile {
  float2 step[P::T][P::kChannels];  // dt, dt x, in the order of place_of()
  float y[P::T][P::kRowOfY];        // skip x, to which the sums over states are added
  float4 b[P::T][P::N / 4], c[P::T][P::N / 4];
  uint32_t begins;  // bit t: a sequence begins at token t
};

// Where step has a channel; pairs of channels stay together. A thread stages eight channels, 64
// bytes; without this order eight threads would meet in two of the eight banks of 16 bytes.
__device__ __forceinline__ int place_of(int channel) { return channel ^ ((channel >> 4 & 3) << 1); }

// kOutput: writes y. Otherwise: writes the state that a piece adds, and the sum of its dt.
template <class Plan, bool kOutput, typename S>
__global__ void __launch_bounds__(Plan::kBlock, 3) forward_kernel(const Arguments<S> p, bool wide) {
  constexpr int N = Plan::N, T = Plan::T, Q = Plan::Q, kOwn = Plan::kOwn, kGroup = Plan::kGroup;
  constexpr int kBlock = Plan::kBlock;
  using P = TilePart<kBlock, T, Plan::kChannels, S>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto* tiles = reinterpret_cast<ForwardTile<Plan>*>(shared);  // two
  const int own = threadIdx.x / Q, q = threadIdx.x % Q, own_place = place_of(own);
  const int first_channel = blockIdx.x * Plan::kChannels, channel = first_channel + own;
  const int begin = blockIdx.y * p.piece, end = min(begin + p.piece, p.n);
  const bool there = channel < p.C;
  const int64_t at_state = int64_t{channel} * N + q * kOwn;

  float A[kOwn] = {}, h[kOwn] = {};
  if (there) {
    load(p.in.A + at_state, A);
    if (kOutput && p.carried != nullptr)
      load(p.carried + int64_t{blockIdx.y} * p.C * N + at_state, h);
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) A[i] *= kLog2e;  // exp(dt A) = 2^(dt A log2 e)

  // Bias and skip of the channels that this thread stages, the same in all of its parts.
  static_assert(kBlock % P::kPerRow == 0);
  float bias[P::V] = {}, skip[P::V] = {};
#pragma unroll
  for (int v = 0; v < P::V; ++v)
    if (const int at = first_channel + P(0).channel + v; at < p.C) {
      if (p.in.bias != nullptr) bias[v] = p.in.bias[at];
      if (p.in.skip != nullptr) skip[v] = p.in.skip[at];
    }

  // Values of the next tile in their storage type: converting them would wait for the loads.
  constexpr int kColumns = ceil_div(T * N, kBlock);
  typename P::Values x[P::kParts], raw[P::kParts];
  S b[kColumns], c[kColumns];
  int edge = 0;  // of the sequence of token threadIdx.x of the tile
  const int* edges = p.reverse ? &p.bounds->y : &p.bounds->x;
  const auto fetch = [&](int first) {
#pragma unroll
    for (int i = 0; i < P::kParts; ++i) {
      const P part(i);
      const int place = first + part.token;
      if (place >= end) continue;
      const int64_t row = row_of(p, place);
      x[i] = load_row<P::V>(p.in.x, row, first_channel + part.channel, p.C, wide);
      raw[i] = load_row<P::V>(p.in.dt, row, first_channel + part.channel, p.C, wide);
    }
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      const int i = threadIdx.x + k * kBlock, place = first + i / N;
      if (i >= T * N || place >= end) continue;
      const int64_t row = row_of(p, place);
      b[k] = p.in.b.data[row * p.in.b.stride + i % N];
      if (kOutput) c[k] = p.in.c.data[row * p.in.c.stride + i % N];
    }
    if (threadIdx.x < T && first + static_cast<int>(threadIdx.x) < end)
      edge = __ldg(edges + 2 * row_of(p, first + threadIdx.x));
  };
  const auto stage = [&](int first, ForwardTile<Plan>& tile) {
#pragma unroll
    for (int i = 0; i < P::kParts; ++i) {
      const P part(i);
      const bool inside = first + part.token < end;
      float dt[P::V], value[P::V], skipped[P::V];
#pragma unroll
      for (int v = 0; v < P::V; ++v) {
        // An absent token or channel has dt = 0: it changes nothing, whatever its row holds.
        const bool used = inside && first_channel + part.channel + v < p.C;
        dt[v] = used ? step_with_bias(p, raw[i][v], bias[v]) : 0.0f;
        value[v] = used ? x[i][v] : 0.0f;
        skipped[v] = skip[v] * value[v];
      }
      float2* steps = tile.step[part.token];
#pragma unroll
      for (int v = 0; v < P::V; v += 2)
        *reinterpret_cast<float4*>(steps + place_of(part.channel + v)) =
            make_float4(dt[v], dt[v] * value[v], dt[v + 1], dt[v + 1] * value[v + 1]);
      if (kOutput) store(tile.y[part.token] + part.channel, skipped);
    }
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      const int i = threadIdx.x + k * kBlock;
      if (i >= T * N) continue;
      const bool inside = first + i / N < end;
      (&tile.b[0][0].x)[i] = inside ? widen(b[k]) : 0.0f;
      if (kOutput) (&tile.c[0][0].x)[i] = inside ? widen(c[k]) : 0.0f;
    }
    if (threadIdx.x < 32) {
      const int place = first + static_cast<int>(threadIdx.x);
      const uint32_t bits = __ballot_sync(
          0xffffffffu, threadIdx.x < T && place < end && row_of(p, place) == edge - p.reverse);
      if (threadIdx.x == 0) tile.begins = bits;
    }
  };
  const auto write = [&](int first, const ForwardTile<Plan>& tile) {
#pragma unroll
    for (int i = 0; i < P::kParts; ++i) {
      const P part(i);
      const int place = first + part.token;
      if (place >= end) continue;
      float y[P::V];
      load(tile.y[part.token] + part.channel, y);
      store_row(p.y, row_of(p, place), first_channel + part.channel, p.C, wide, y);
    }
  };

  float through = 0;   // the sum of dt
  bool reset = false;  // a sequence begins in the piece
  // Tokens t to t + kGroup - 1 of a tile. Masked: a sequence begins among them.
  const auto group = [&](auto masked, ForwardTile<Plan>& tile, uint32_t begins, int t) {
    constexpr bool kMasked = decltype(masked)::value;
    float sums[kGroup];
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      if (kMasked && (begins >> (t + j) & 1)) {
        reset = true;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) h[i] = 0;
      }
      const float2 step = tile.step[t + j][own_place];
      if (!kOutput) through += step.x;
      float even = 0, odd = 0;  // two sums, each half as long a chain of dependent additions
#pragma unroll
      for (int i = 0; i < kOwn; i += 4) {
        const float4 b4 = tile.b[t + j][(q * kOwn + i) / 4];
        h[i] = fmaf(exp2_fast(step.x * A[i]), h[i], step.y * b4.x);
        h[i + 1] = fmaf(exp2_fast(step.x * A[i + 1]), h[i + 1], step.y * b4.y);
        h[i + 2] = fmaf(exp2_fast(step.x * A[i + 2]), h[i + 2], step.y * b4.z);
        h[i + 3] = fmaf(exp2_fast(step.x * A[i + 3]), h[i + 3], step.y * b4.w);
        if (kOutput) {
          const float4 c4 = tile.c[t + j][(q * kOwn + i) / 4];
          even = fmaf(c4.x, h[i], even), odd = fmaf(c4.y, h[i + 1], odd);
          even = fmaf(c4.z, h[i + 2], even), odd = fmaf(c4.w, h[i + 3], odd);
        }
      }
      sums[j] = even + odd;
    }
    if (kOutput) {
      spread_sum<Q, 1>(sums);
      const int kept = t + spread_first<Q, 1, kGroup>();
#pragma unroll
      for (int j = 0; j < kGroup / Q; ++j) tile.y[kept + j][own] += sums[j];
    }
  };

  fetch(begin);
  stage(begin, tiles[0]);
  __syncthreads();
  int turn = 0;
  for (int first = begin; first < end; first += T, turn ^= 1) {
    auto& tile = tiles[turn];
    fetch(first + T);
    if (kOutput && first > begin) write(first - T, tiles[turn ^ 1]);
    if (kOutput && p.states != nullptr && there)
      store(p.states + int64_t{first / T} * p.C * N + at_state, h);
    const uint32_t begins = tile.begins;
#pragma unroll 1
    for (int t = 0; t < T; t += kGroup) {
      if ((begins >> t & ((1u << kGroup) - 1)) == 0)
        group(std::false_type{}, tile, begins, t);
      else
        group(std::true_type{}, tile, begins, t);
    }
    if (first + T < end) stage(first + T, tiles[turn ^ 1]);
    __syncthreads();
  }
  if (kOutput) {
    write(begin + (end - begin - 1) / T * T, tiles[turn ^ 1]);
  } else if (there) {
    store(p.carried + int64_t{blockIdx.y} * p.C * N + at_state, h);
    if (q == 0) p.through[int64_t{blockIdx.y} * p.C + channel] = reset ? INFINITY : through;
  }
}

// Replaces the state that each piece adds by the one that it starts from. kBack: pieces in
// reverse order.
template <bool kBack>
__global__ void carry_kernel(int pieces, int C, int N, const float* A, const float* through,
                             float* carried) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= C * N) return;
  const auto piece_of = [&](int k) { return kBack ? pieces - 1 - k : k; };
  constexpr int kAhead = 8;  // loads of several pieces at once: a store would hold them up
  float h = 0;
  for (int first = 0; first < pieces; first += kAhead) {
    float added[kAhead], sum[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (first + k < pieces) {
        added[k] = carried[int64_t{piece_of(first + k)} * C * N + i];
        sum[k] = through[int64_t{piece_of(first + k)} * C + i / N];
      }
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (first + k < pieces) {
        carried[int64_t{piece_of(first + k)} * C * N + i] = h;
        h = sum[k] < INFINITY ? fmaf(exp2_fast(sum[k] * A[i] * kLog2e), h, added[k]) : added[k];
      }
  }
}

template <class P, bool kOutput, typename S>
cudaError_t launch_pass(const Arguments<S>& p, bool wide, cudaStream_t stream) {
  constexpr int kBytes = 2 * static_cast<int>(sizeof(ForwardTile<P>));
  const auto kernel = forward_kernel<P, kOutput, S>;
  if (const auto e =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess)
    return e;
  const dim3 grid(ceil_div(p.C, P::kChannels), ceil_div(p.n, p.piece));
  kernel<<<grid, P::kBlock, kBytes, stream>>>(p, wide);
  return cudaGetLastError();
}

template <class P, typename S>
cudaError_t launch_passes(const Arguments<S>& p, bool wide, cudaStream_t stream) {
  if (p.carried != nullptr) {
    if (const auto e = launch_pass<P, false>(p, wide, stream); e != cudaSuccess) return e;
    const int pieces = ceil_div(p.n, p.piece);
    if (const auto e = launch_carry<false>(pieces, p.C, P::N, p.in.A, p.through, p.carried, stream);
        e != cudaSuccess)
      return e;
  }
  return launch_pass<P, true>(p, wide, stream);
}

}  // namespace

template <bool kBack>
cudaError_t launch_carry(int pieces, int C, int N, const float* A, const float* through,
                         float* carried, cudaStream_t stream) {
  carry_kernel<kBack><<<ceil_div(C * N, 128), 128, 0, stream>>>(pieces, C, N, A, through, carried);
  return cudaGetLastError();
}
template cudaError_t launch_carry<false>(int, int, int, const float*, const float*, float*,
                                         cudaStream_t);
template cudaError_t launch_carry<true>(int, int, int, const float*, const float*, float*,
                                        cudaStream_t);

template <int Q, typename S>
cudaError_t launch_forward(const Arguments<S>& p, bool wide, cudaStream_t stream) {
  constexpr int N = kOwn * Q;
  if constexpr (N >= kManyOwn)
    if (p.many) return launch_passes<Plan<N, kManyOwn>>(p, wide, stream);
  return launch_passes<Plan<N, kOwn>>(p, wide, stream);
}

#define HYDRAMIX_SELECTIVE(Q)                                                          \
  template cudaError_t launch_forward<Q>(const Arguments<float>&, bool, cudaStream_t); \
  template cudaError_t launch_forward<Q>(const Arguments<BFloat16>&, bool, cudaStream_t);
HYDRAMIX_SELECTIVE(1)
HYDRAMIX_SELECTIVE(2)
HYDRAMIX_SELECTIVE(4)
HYDRAMIX_SELECTIVE(8)
HYDRAMIX_SELECTIVE(16)

}  // namespace hydramix::cuda::selective
