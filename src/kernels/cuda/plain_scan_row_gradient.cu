// SPDX-License-Identifier: Apache-2.0
// Gradients of b and c in the plain scan: d(c . b) of a tile times c or b, and for each head the
// part through states,
//
//   db_j += 2^(sum_far - sum_j) dt_j x_j dstate',      dc_source(i) += 2^reach_i dy_i state.
//
// Their products with b_j and c_source(i) are the contributions of the same states to the gradients
// of decays. A block sums over the heads of a group in order.
#include "kernels/cuda/plain_scan_parts.cuh"

namespace hydramix::cuda::plain {
namespace {

// <state that enters, gradient of the state that leaves> 2^sum_far, of a tile and head.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    tile_decay_kernel(const Problem<S> p, const float* states, const float* dstates, double* to) {
  const int tile = blockIdx.x, h = blockIdx.y, d = blockIdx.z, size = p.shape.P * p.shape.N;
  if (!p.shape.on[d]) return;
  const int64_t at = (static_cast<int64_t>(d) * p.layout.tiles + tile) * p.shape.H + h;
  const double tile_decay = p.steps.tile_decay(d, tile, h);
  double sum = 0;
  if (tile_decay != 0)
    for (int e = threadIdx.x; e < size; e += kThreads)
      sum += static_cast<double>(states[at * size + e]) * dstates[at * size + e];
  sum = half_warp_sum(sum);
  __shared__ double parts[kThreads / 16];
  if (threadIdx.x % 16 == 0) parts[threadIdx.x / 16] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (const double part : parts) total += part;
  to[at] = tile_decay * total;
}

template <typename S>
struct RowArguments {
  Problem<S> p;
  StridedRows<const S> dy;
  const float *states, *dstates;
  Gathered gathered;
  ScanGradients<S> out;
};

// Gradients of b (kOfB) or of c: 64 rows and 64 columns, over all heads of a group.
template <typename S, bool kOfB>
__global__ void __launch_bounds__(kThreads, 2) row_gradient_kernel(const RowArguments<S> a) {
  __shared__ Stage stages[2];
  __shared__ int c_tokens[kTile];
  __shared__ float diagonal[kBlock];
  const Problem<S>& p = a.p;
  const int P = p.shape.P, N = p.shape.N, H = p.shape.H, G = p.shape.G, shift = p.shape.shift;
  const int64_t n = p.layout.n;
  const int tile = blockIdx.x / 2, first = blockIdx.x % 2 * kBlock, n0 = blockIdx.y * kBlock;
  const int d = blockIdx.z % 2, g = blockIdx.z / 2, heads = H / G;
  const Span s = tile_span(p.layout, tile);
  if (first >= s.rows || !p.shape.on[d]) return;
  const auto& in = p.in.direction[d];
  for (int r = threadIdx.x; r < s.rows; r += kThreads)
    c_tokens[r] = source(p.layout, shift, d, s.begin + r);
  if (shift == 0)
    for (int r = threadIdx.x; r < kBlock && first + r < s.rows; r += kThreads) {
      const int t = s.begin + first + r;
      float sum = 0;
      for (int h = g * heads; h < (g + 1) * heads; ++h)
        sum += a.gathered.diagonal[h * n + t] * p.steps.dts_of(d, h)[t];
      diagonal[r] = sum;
    }
  __syncthreads();

  // Entries of b and c at row r of the tile, column n0 + c; zero outside.
  const auto b_at = [&](int r, int c) {
    return r < s.rows && n0 + c < N ? in.b.data[(s.begin + r) * in.b.stride + g * N + n0 + c] : S();
  };
  const auto c_at = [&](int r, int c) {
    return r < s.rows && n0 + c < N && c_tokens[r] >= 0
               ? in.c.data[c_tokens[r] * in.c.stride + g * N + n0 + c]
               : S();
  };
  const float* matrices = a.gathered.matrices + (static_cast<int64_t>(tile) * G + g) * kSquare;
  const int64_t run_size = static_cast<int64_t>(p.layout.tiles) * G * kSquare;
  const auto dproduct = [&](int i, int j) {
    float sum = 0;
    if (d == 0 ? j < i : j > i)
      for (int run = 0; run < a.gathered.runs; ++run)
        sum += matrices[run * run_size + i * kTile + j];
    return sum;
  };
  Window window{0, s.rows};  // of terms
  const auto matrix = operand<!kOfB>([&](int r, int k) {
    if (first + r >= s.rows) return 0.0f;
    return kOfB ? dproduct(window.low + k, first + r) : dproduct(first + r, window.low + k);
  });
  const auto others = operand<false>(
      [&](int c, int k) { return kOfB ? c_at(window.low + k, c) : b_at(window.low + k, c); });
  float acc[4][4] = {}, sums_of_window[4][4];
  do {
    clear(sums_of_window);
    multiply(stages, window.high - window.low, matrix, others, sums_of_window);
    keep_rows(window, first, sums_of_window, acc);
  } while (next_window(window, p.layout, s, sums_of_window));
  if (shift == 0)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first + own_row(r);
      if (row >= s.rows) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c)
        acc[r][c] += diagonal[own_row(r)] *
                     widen(kOfB ? c_at(row, own_column(c)) : b_at(row, own_column(c)));
    }

  // The rows of the sequence to which the state belongs.
  const Window mine = crossing(p.layout, kOfB ? d : 1 - d, s).rows;
  if (p.layout.states && mine.low < mine.high) {
    float own[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        own[r][c] = widen(kOfB ? b_at(first + own_row(r), own_column(c))
                               : c_at(first + own_row(r), own_column(c)));
    const StridedRows<const S> u = kOfB ? p.in.x : a.dy;
    for (int h = g * heads; h < (g + 1) * heads; ++h) {
      const float* state = (kOfB ? a.dstates : a.states) +
                           ((static_cast<int64_t>(d) * p.layout.tiles + tile) * H + h) * P * N;
      const auto rows = operand<true>([&](int r, int k) {
        return first + r < s.rows ? u.data[(s.begin + first + r) * u.stride + h * P + k] : S();
      });
      const auto columns = operand<false>([&](int c, int k) {
        return n0 + c < N ? state[static_cast<int64_t>(k) * N + n0 + c] : 0.0f;
      });
      float part[4][4] = {};
      multiply(stages, P, rows, columns, part);
      const double* sums = p.steps.sums_of(d, h);
      float* dots =
          a.gathered.dots +
          ((static_cast<int64_t>(2 * d + (kOfB ? 0 : 1)) * gridDim.y + blockIdx.y) * H + h) * n;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = first + own_row(r), t = s.begin + row;
        float dot = 0;
        if (mine.has(row)) {
          const float weight = kOfB ? decay(sums[far_token(d, s)] - sums[t])
                                    : decay(reach_of(sums, d, shift, s, row));
          const float dt = kOfB ? p.steps.dts_of(d, h)[t] : 1.0f;
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            const float v = weight * part[r][c];
            dot += v * own[r][c];
            acc[r][c] += v * dt;
          }
        }
        dot = half_warp_sum(dot);
        if (threadIdx.x % 16 == 0 && row < s.rows) dots[t] = dot;
      }
    }
  }

  S* to = kOfB ? a.out.direction[d].b.data : a.out.direction[d].c.data;
  const int64_t to_row = kOfB ? a.out.direction[d].b.stride : a.out.direction[d].c.stride;
  if (to == nullptr) return;
  const float nothing[4] = {};
  const int left = N - n0 - own_column(0);
  to += g * N + n0 + own_column(0);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = first + own_row(r), t = s.begin + row;
    if (row >= s.rows) continue;
    const int target = kOfB ? t : c_tokens[row];
    if (target >= 0) store_four(to + target * to_row, acc[r], left);
    // No row uses c of the token where a direction ends.
    if (!kOfB && shift == 1 && starts(p.layout, 1 - d, t))
      store_four(to + t * to_row, nothing, left);
  }
}

}  // namespace

template <typename S>
cudaError_t row_gradient(const Problem<S>& p, StridedRows<const S> dy, const float* states,
                         const float* dstates, const Gathered& gathered,
                         const ScanGradients<S>& out, cudaStream_t stream) {
  if (p.layout.states)
    tile_decay_kernel<<<dim3(p.layout.tiles, p.shape.H, 2), kThreads, 0, stream>>>(
        p, states, dstates, gathered.tile_decays);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  const RowArguments<S> a{p, dy, states, dstates, gathered, out};
  const dim3 grid(2 * p.layout.tiles, chunks(p.shape.N), 2 * p.shape.G);
  row_gradient_kernel<S, true><<<grid, kThreads, 0, stream>>>(a);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  row_gradient_kernel<S, false><<<grid, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

template cudaError_t row_gradient(const Problem<float>&, StridedRows<const float>, const float*,
                                  const float*, const Gathered&, const ScanGradients<float>&,
                                  cudaStream_t);
template cudaError_t row_gradient(const Problem<BFloat16>&, StridedRows<const BFloat16>,
                                  const float*, const float*, const Gathered&,
                                  const ScanGradients<BFloat16>&, cudaStream_t);

}  // namespace hydramix::cuda::plain
