// SPDX-License-Identifier: Apache-2.0
// The states at the borders of windows. A thread block walks through the windows of a segment with
// the state of a head in its registers, and for every block of positions
//
//   h <- diag(2^total) h + (k 2^leave)^T x      upwards
//   d <- diag(2^total) d + (q 2^enter)^T dy     downwards: the gradient of the state
//
// and stores the state with which it comes to each window, rounded, where a sequence crosses the
// border. If sequences are in several segments, a first walk finds what each segment adds and by
// how much it decays an earlier state, and a second one starts from their sum.
//
// Bytes at n tokens and H heads: n H (6 N + 2 P) with float gates, twice where states are carried,
// and n H N P / 32 for the states.
#include "kernels/cuda/gated_scan_launch.cuh"

namespace hydramix::cuda::gated {
namespace {

// One window of a walk: the rows of the sequence that crosses the far border.
struct Step {
  Rows rows;
  bool fresh;    // the sequence does not come from the near border
  bool crossed;  // some sequence crosses the near border
};
// The sequences of the first and the last position of a window, loaded before they are needed.
struct StoredStep {
  int begin, end;
  int2 first, last;

  __device__ __forceinline__ void load(const Arguments& a, int window) {
    begin = window * kWindow, end = min(begin + kWindow, a.n);
    first = sequence_at(a, begin), last = sequence_at(a, end - 1);
  }
  template <bool kGradient>
  __device__ __forceinline__ Step step() const {
    if constexpr (kGradient)
      return {{begin, 0, min(first.y, end) - begin}, first.y <= end, last.y > end};
    else
      return {{begin, max(last.x - begin, 0), end - begin}, last.x >= begin, first.x < begin};
  }
};

template <int N, int P>
struct WalkPlan {
  static constexpr int kKeys = Tile<N>::bytes(kWindow), kValues = Tile<P>::bytes(kWindow);
  static constexpr int kStage = kKeys + kValues;
  static constexpr int kBytes = 2 * kStage;
  // Warps by rows and columns of the state.
  static constexpr int kRowWarps = N / 16, kColumnWarps = Sizes<N, P>::kWarps / kRowWarps;
  static constexpr int kColumns = P / kColumnWarps;
};

// Without w.states it only finds what a segment adds.
template <int N, int P, bool kGradient>
__global__ void __launch_bounds__(Sizes<N, P>::kThreads, N <= 64 && P <= 64 ? 3 : 1)
    walk_kernel(const Arguments a, const Walks w) {
  using Z = Sizes<N, P>;
  using Plan = WalkPlan<N, P>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ __align__(16) float totals[2][kBlocks][N];

  const int segment = blockIdx.x / a.H, head = blockIdx.x % a.H;
  const int windows = ceil_div(a.n, kWindow);
  const int first_window = segment * w.segment, count = min(w.segment, windows - first_window);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane >> 2, c = lane & 3;
  // Keys of a block that this lane scales.
  const int block = warp % kBlocks, column = warp / kBlocks * Z::kKeys + 2 * lane % Z::kKeys;
  // The part of the state that it holds: rows n0 and n0 + 8, columns p0 + 8 j and + 1.
  const int row_warp = warp % Plan::kRowWarps, column_warp = warp / Plan::kRowWarps;
  const int n0 = row_warp * 16 + g, p0 = column_warp * Plan::kColumns + 2 * c;
  const int64_t at_state = int64_t{n0} * P + p0;
  const auto window_of = [&](int i) {
    return first_window + (kGradient ? count - 1 - min(i, count - 1) : min(i, count - 1));
  };
  const auto stage_of = [&](int i) { return shared_address(shared) + (i & 1) * Plan::kStage; };
  const auto& keys = kGradient ? a.q : a.k;

  float state[Plan::kColumns / 8][4] = {};
  float through[2] = {0, 0};
  float* end = w.ends + (int64_t{segment} * a.H + head) * (N * P) + at_state;
  if (w.ends != nullptr && w.states != nullptr)
#pragma unroll
    for (int j = 0; j < Plan::kColumns / 8; ++j) {
      const float2 upper = *reinterpret_cast<const float2*>(end + 8 * j);
      const float2 lower = *reinterpret_cast<const float2*>(end + 8 * P + 8 * j);
      state[j][0] = upper.x, state[j][1] = upper.y, state[j][2] = lower.x, state[j][3] = lower.y;
    }

  // Keys, gates and values are loaded one window ahead, the bounds of sequences two.
  uint32_t stored_keys[kBlock];
  StoredGates stored_gates;
  const auto load = [&](const Step& step, int i) {
    start_copies<P, Z::kThreads>(stage_of(i) + Plan::kKeys, a, kGradient ? a.dy : a.x, head,
                                 step.rows);
    commit_copies();
    load_keys(a, keys, step.rows, block, head * N + column, stored_keys);
    stored_gates.load(a, step.rows, block, head * N + column);
  };
  // Nothing reads the state at the end of the last window, unless it is carried.
  const int updates = w.states != nullptr ? count - 1 : count;
  const auto store_state = [&](int window) {
    BFloat16* to = w.states + (int64_t{window} * a.H + head) * (N * P) + at_state;
#pragma unroll
    for (int j = 0; j < Plan::kColumns / 8; ++j) {
      *reinterpret_cast<uint32_t*>(to + 8 * j) = pack(state[j][0], state[j][1]);
      *reinterpret_cast<uint32_t*>(to + 8 * P + 8 * j) = pack(state[j][2], state[j][3]);
    }
  };
  StoredStep stored;
  stored.load(a, window_of(0));
  Step step = stored.template step<kGradient>();
  if (updates > 0) load(step, 0);
  stored.load(a, window_of(1));
  for (int i = 0; i < updates; ++i) {
    float2 gates[kBlock], total = make_float2(0, 0);
    stored_gates.logs(a, gates);
    const auto put = [&](int t, const float2& log) {
      store_shared(stage_of(i) + Tile<N>::pair(block * kBlock + t, column),
                   scaled(stored_keys[t], log));
    };
    if constexpr (kGradient)
      for_upper<kBlock>(gates, 0, put);
    else
      for_lower<kBlock>(gates, 0, put);
#pragma unroll
    for (int t = 0; t < kBlock; ++t) add(total, gates[t]);
    *reinterpret_cast<float2*>(&totals[i & 1][block][column]) = total;
    wait_copies<0>();
    __syncthreads();

    const Step now = step;
    step = stored.template step<kGradient>();
    if (i + 1 < updates) load(step, i + 1);
    stored.load(a, window_of(i + 2));
    if (w.states != nullptr && now.crossed) store_state(window_of(i));
    // The state of another sequence has no effect, even if it is not finite.
    if (now.fresh) {
      through[0] = through[1] = -INFINITY;
#pragma unroll
      for (int j = 0; j < Plan::kColumns / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) state[j][e] = 0;
    }
#pragma unroll
    for (int s = 0; s < kBlocks; ++s) {
      const int at = kGradient ? kBlocks - 1 - s : s;
      const float log0 = totals[i & 1][at][n0], log1 = totals[i & 1][at][n0 + 8];
      const float factor0 = power_of_two(log0), factor1 = power_of_two(log1);
      through[0] += log0, through[1] += log1;
#pragma unroll
      for (int j = 0; j < Plan::kColumns / 8; ++j) {
        state[j][0] *= factor0, state[j][1] *= factor0;
        state[j][2] *= factor1, state[j][3] *= factor1;
      }
      uint32_t m[4];
      Tile<N>::a_transposed(m, stage_of(i), at * kBlock, 2 * row_warp, lane);
      add_mixed<P>(state, m, stage_of(i) + Plan::kKeys, at * kBlock,
                   column_warp * Plan::kColumns / 8, lane);
    }
  }
  if (w.states != nullptr) {
    if (step.crossed) store_state(window_of(updates));
    return;
  }
#pragma unroll
  for (int j = 0; j < Plan::kColumns / 8; ++j) {
    *reinterpret_cast<float2*>(end + 8 * j) = make_float2(state[j][0], state[j][1]);
    *reinterpret_cast<float2*>(end + 8 * P + 8 * j) = make_float2(state[j][2], state[j][3]);
  }
  if (c == 0 && column_warp == 0) {
    float* to = w.through + (int64_t{segment} * a.H + head) * N + n0;
    to[0] = through[0], to[8] = through[1];
  }
}

// Replaces what each segment adds by what it starts from.
__global__ void carry_kernel(int segments, int states, int P, bool gradient, const float* through,
                             float* ends) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;  // of (H, N, P)
  if (i >= states) return;
  float carried = 0;
  for (int s = 0; s < segments; ++s) {
    const int64_t segment = gradient ? segments - 1 - s : s;
    float& place = ends[segment * states + i];
    const float added = place, factor = power_of_two(through[segment * (states / P) + i / P]);
    place = carried;
    carried = factor == 0 ? added : fmaf(factor, carried, added);
  }
}

template <int N, int P, bool kGradient>
cudaError_t launch_walk(const Arguments& a, const Walks& w, cudaStream_t stream) {
  constexpr int kBytes = WalkPlan<N, P>::kBytes;
  const auto kernel = walk_kernel<N, P, kGradient>;
  if (const auto e = allow_dynamic_shared(kernel, kBytes); e != cudaSuccess) return e;
  const int segments = ceil_div(ceil_div(a.n, kWindow), w.segment);
  kernel<<<segments * a.H, Sizes<N, P>::kThreads, kBytes, stream>>>(a, w);
  return cudaGetLastError();
}

template <int N, int P, bool kGradient>
cudaError_t launch_walks(const Arguments& a, const Walks& w, cudaStream_t stream) {
  if (w.ends != nullptr) {
    Walks first = w;
    first.states = nullptr;
    if (const auto e = launch_walk<N, P, kGradient>(a, first, stream); e != cudaSuccess) return e;
    const int segments = ceil_div(ceil_div(a.n, kWindow), w.segment), states = a.H * N * P;
    carry_kernel<<<ceil_div(states, 128), 128, 0, stream>>>(segments, states, P, kGradient,
                                                            w.through, w.ends);
    if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  }
  return launch_walk<N, P, kGradient>(a, w, stream);
}

}  // namespace

template <int N, int P>
cudaError_t launch_states(const Arguments& a, const Walks& walks, bool gradient,
                          cudaStream_t stream) {
  return gradient ? launch_walks<N, P, true>(a, walks, stream)
                  : launch_walks<N, P, false>(a, walks, stream);
}

#define HYDRAMIX_GATED(N, P) \
  template cudaError_t launch_states<N, P>(const Arguments&, const Walks&, bool, cudaStream_t);
HYDRAMIX_GATED_SIZES(HYDRAMIX_GATED)

}  // namespace hydramix::cuda::gated
