// SPDX-License-Identifier: Apache-2.0
// The forward pass. A block walks down its piece of the tokens, tile by tile; the next tile is
// loaded into registers meanwhile, and one barrier separates tiles. Pieces that begin in the middle
// of a sequence need the state there: then a first pass finds the state that each piece adds and by
// how much it decays an earlier one, and a second one adds them up, piece by piece.
//
// Bytes at n tokens and C channels of bfloat16: 6 n C, and 4 n C N / 32 for the states at tiles.
#include <type_traits>

#include "kernels/cuda/selective_scan_launch.cuh"
#include "kernels/cuda/selective_scan_parts.cuh"

namespace hydramix::cuda::selective {
namespace {

template <int Q>
struct ForwardTile {
  float2 step[kTile<Q>][kChannels<Q>];  // dt, dt x
  float y[kTile<Q>][kChannels<Q>];      // skip x, to which the sums over states are added
  SharedColumns<Q> columns;
  uint32_t begins;  // bit t: a sequence begins at token t
};

// kOutput: writes y. Otherwise: writes the state that a piece adds, and the sum of its dt.
template <int Q, bool kOutput, typename S>
__global__ void __launch_bounds__(kThreads, 2) forward_kernel(const Arguments<S> p, bool wide) {
  constexpr int N = kOwn * Q, T = kTile<Q>;
  constexpr int kGroup = Q < 4 ? 4 : Q;  // tokens whose sums over states are formed together
  using P = Part<Q, S>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto* tiles = reinterpret_cast<ForwardTile<Q>*>(shared);  // two
  const int own = threadIdx.x / Q, q = threadIdx.x % Q;
  const int first_channel = blockIdx.x * kChannels<Q>, channel = first_channel + own;
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

  typename P::Values x[P::kParts], raw[P::kParts];  // of the next tile
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
  };
  const auto stage = [&](int first, ForwardTile<Q>& tile) {
#pragma unroll
    for (int i = 0; i < P::kParts; ++i) {
      const P part(i);
      const bool inside = first + part.token < end;
#pragma unroll
      for (int v = 0; v < P::V; ++v) {
        const int c = first_channel + part.channel + v;
        const bool used = inside && c < p.C;
        const float dt = used ? step_of(p, raw[i][v], c) : 0.0f;
        const float value = used ? x[i][v] : 0.0f;
        tile.step[part.token][part.channel + v] = make_float2(dt, dt * value);
        if (kOutput)
          tile.y[part.token][part.channel + v] =
              used && p.in.skip != nullptr ? __ldg(p.in.skip + c) * value : 0.0f;
      }
    }
    stage_columns(p, first, end, tile.columns);
    if (threadIdx.x < 32) {
      const uint32_t bits = beginnings<Q>(p, first, end);
      if (threadIdx.x == 0) tile.begins = bits;
    }
  };
  const auto write = [&](int first, const ForwardTile<Q>& tile) {
#pragma unroll
    for (int i = 0; i < P::kParts; ++i) {
      const P part(i);
      const int place = first + part.token;
      if (place >= end) continue;
      float y[P::V];
#pragma unroll
      for (int v = 0; v < P::V; ++v) y[v] = tile.y[part.token][part.channel + v];
      store_row(p.y, row_of(p, place), first_channel + part.channel, p.C, wide, y);
    }
  };

  float through = 0;   // the sum of dt
  bool reset = false;  // a sequence begins in the piece
  // Tokens t to t + kGroup - 1 of a tile. Masked: a sequence begins among them.
  const auto group = [&](auto masked, ForwardTile<Q>& tile, int t) {
    constexpr bool kMasked = decltype(masked)::value;
    float sums[kGroup];
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      if (kMasked && (tile.begins >> (t + j) & 1)) {
        reset = true;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) h[i] = 0;
      }
      const float2 step = tile.step[t + j][own];
      const float4 b4 = tile.columns.b[t + j][q];
      const float b[kOwn] = {b4.x, b4.y, b4.z, b4.w};
      if (!kOutput) through += step.x;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) h[i] = fmaf(exp2_fast(step.x * A[i]), h[i], step.y * b[i]);
      if (kOutput) {
        const float4 c4 = tile.columns.c[t + j][q];
        sums[j] = fmaf(c4.w, h[3], fmaf(c4.z, h[2], fmaf(c4.y, h[1], c4.x * h[0])));
      }
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
#pragma unroll 1
    for (int t = 0; t < T; t += kGroup) {
      if ((tile.begins >> t & ((1ull << kGroup) - 1)) == 0)
        group(std::false_type{}, tile, t);
      else
        group(std::true_type{}, tile, t);
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
  float h = 0;
  for (int k = 0; k < pieces; ++k) {
    const int piece = kBack ? pieces - 1 - k : k;
    float& place = carried[int64_t{piece} * C * N + i];
    const float added = place, sum = through[int64_t{piece} * C + i / N];
    place = h;
    h = sum < INFINITY ? fmaf(exp2_fast(sum * A[i] * kLog2e), h, added) : added;
  }
}

template <int Q, bool kOutput, typename S>
cudaError_t launch_pass(const Arguments<S>& p, bool wide, cudaStream_t stream) {
  constexpr int kBytes = 2 * static_cast<int>(sizeof(ForwardTile<Q>));
  const auto kernel = forward_kernel<Q, kOutput, S>;
  if (const auto e =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess)
    return e;
  const dim3 grid(ceil_div(p.C, kChannels<Q>), ceil_div(p.n, p.piece));
  kernel<<<grid, kThreads, kBytes, stream>>>(p, wide);
  return cudaGetLastError();
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
  if (p.carried != nullptr) {
    if (const auto e = launch_pass<Q, false>(p, wide, stream); e != cudaSuccess) return e;
    const int pieces = ceil_div(p.n, p.piece);
    if (const auto e =
            launch_carry<false>(pieces, p.C, kOwn * Q, p.in.A, p.through, p.carried, stream);
        e != cudaSuccess)
      return e;
  }
  return launch_pass<Q, true>(p, wide, stream);
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
