// SPDX-License-Identifier: Apache-2.0
// Applies the plain scan's matrix. First c . b of all tiles, once for the heads of a group. Then,
// for each head, 64 rows of y at a time; in the backward pass 64 rows of dx by the transposed
// matrix. Of the matrix of a head only 16 columns at a time exist, in shared memory.
#include "kernels/cuda/plain_scan_parts.cuh"

namespace hydramix::cuda::plain {
namespace {

// One quarter of a tile's matrix: rows i of the c that row i uses, columns j of b.
template <typename S>
__global__ void __launch_bounds__(kThreads) products_kernel(const Problem<S> p) {
  __shared__ Stage stages[2];
  __shared__ int c_tokens[kBlock];
  const int tile = blockIdx.x / 4, g = blockIdx.y, N = p.shape.N;
  const int i0 = blockIdx.x / 2 % 2 * kBlock, j0 = blockIdx.x % 2 * kBlock;
  const Span s = tile_span(p.layout, tile);
  if (i0 >= s.rows || j0 >= s.rows) return;
  float result[4][4] = {};
  for (int d = 0; d < 2; ++d) {
    if (!p.shape.on[d] || (d == 0 ? i0 < j0 : i0 > j0)) continue;
    const auto& in = p.in.direction[d];
    __syncthreads();  // tokens of the other direction have been read
    for (int r = threadIdx.x; r < kBlock; r += kThreads)
      c_tokens[r] = i0 + r < s.rows ? source(p.layout, p.shape.shift, d, s.begin + i0 + r) : -1;
    __syncthreads();
    float acc[4][4] = {};
    const auto c_rows = operand<true>([&](int r, int k) {
      return c_tokens[r] >= 0 ? in.c.data[c_tokens[r] * in.c.stride + g * N + k] : S();
    });
    const auto b_rows = operand<true>([&](int r, int k) {
      return j0 + r < s.rows ? in.b.data[(s.begin + j0 + r) * in.b.stride + g * N + k] : S();
    });
    multiply(stages, N, c_rows, b_rows, acc);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int i = i0 + own_row(r), j = j0 + own_column(c);
        if (d == 0 ? j < i : j > i) result[r][c] = acc[r][c];
        if (i == j && i < s.rows && p.shape.shift == 0)
          p.products
              .diagonal[(static_cast<int64_t>(d) * p.shape.G + g) * p.layout.n + s.begin + i] =
              acc[r][c];
      }
  }
  float* to = p.products.matrix(p.shape.G, tile, g);
#pragma unroll
  for (int r = 0; r < 4; ++r)
    store<4>(to + (i0 + own_row(r)) * kTile + j0 + own_column(0), result[r]);
}

template <typename S>
struct Arguments {
  Problem<S> p;
  StridedRows<const S> u;  // x, or dy
  const float* states;     // that enter, or gradients of those that leave
  StridedRows<S> to;       // y, or dx
};

template <typename S, bool kTransposed>
__global__ void __launch_bounds__(kThreads, 3) apply_kernel(const Arguments<S> a) {
  __shared__ Stage stages[2];
  __shared__ Log sums[2][kTile], reaches[2][kTile];
  __shared__ float dts[2][kTile], diagonal[kTile];
  __shared__ int tokens[2][kBlock];  // whose c, or b

  const Problem<S>& p = a.p;
  const int P = p.shape.P, N = p.shape.N, shift = p.shape.shift;
  const int tile = blockIdx.x / 2, first = blockIdx.x % 2 * kBlock, h = blockIdx.y;
  const int p0 = blockIdx.z * kBlock, g = h / (p.shape.H / p.shape.G);
  const Span s = tile_span(p.layout, tile);
  if (first >= s.rows) return;

  for (int r = threadIdx.x; r < s.rows; r += kThreads) {
    const int t = s.begin + r;
    float sum = p.in.diagonal != nullptr ? p.in.diagonal[h] : 0.0f;
    if (p.in.delta.data != nullptr)
      sum += load_any(p.in.delta.data, t * p.in.delta.stride + h, p.in.delta_is_float);
    for (int d = 0; d < 2; ++d) {
      if (!p.shape.on[d]) continue;
      const double* all = p.steps.sums_of(d, h);
      sums[d][r] = split(all[t]);
      reaches[d][r] = split(reach_of(all, d, shift, s, r));
      dts[d][r] = p.steps.dts_of(d, h)[t];
      if (shift == 0)
        sum += dts[d][r] *
               p.products.diagonal[(static_cast<int64_t>(d) * p.shape.G + g) * p.layout.n + t];
    }
    diagonal[r] = sum;
  }
  for (int r = threadIdx.x; r < 2 * kBlock; r += kThreads) {
    const int d = r / kBlock, row = first + r % kBlock;
    tokens[d][r % kBlock] = row >= s.rows ? -1
                            : kTransposed ? s.begin + row
                                          : source(p.layout, shift, d, s.begin + row);
  }
  __syncthreads();

  const float* products = p.products.matrix(p.shape.G, tile, g);
  // Entry i, j of the matrix, where row and term are i and j, or j and i.
  Window window{0, s.rows};  // of terms
  const auto row_of = [&](int r, int k) { return kTransposed ? window.low + k : first + r; };
  const auto column_of = [&](int r, int k) { return kTransposed ? first + r : window.low + k; };
  const auto matrix = operand<!kTransposed>(
      [&](int r, int k) {
        return first + r < s.rows ? products[row_of(r, k) * kTile + column_of(r, k)] : 0.0f;
      },
      [&](float product, int r, int k) {
        const int i = row_of(r, k), j = column_of(r, k), d = j < i ? 0 : 1;
        if (first + r >= s.rows) return 0.0f;
        if (i == j) return diagonal[i];
        if (!p.shape.on[d]) return 0.0f;
        return product * decay(reaches[d][i], sums[d][j]) * dts[d][j];
      });
  const auto u = operand<false>([&](int c, int k) {
    return p0 + c < P ? a.u.data[(s.begin + window.low + k) * a.u.stride + h * P + p0 + c] : S();
  });
  float acc[4][4] = {}, sums_of_window[4][4];
  do {
    clear(sums_of_window);
    multiply(stages, window.high - window.low, matrix, u, sums_of_window);
    keep_rows(window, first, sums_of_window, acc);
  } while (next_window(window, p.layout, s, sums_of_window));

  for (int d = 0; d < 2; ++d) {
    if (!p.layout.states || !p.shape.on[d]) continue;
    // The rows of the sequence to which the state belongs.
    const Window own = crossing(p.layout, kTransposed ? d : 1 - d, s).rows;
    if (own.low == own.high) continue;
    const auto& in = p.in.direction[d];
    const S* rows = (kTransposed ? in.b.data : in.c.data) + g * N;
    const int64_t row = kTransposed ? in.b.stride : in.c.stride;
    const float* state =
        a.states + ((static_cast<int64_t>(d) * p.layout.tiles + tile) * p.shape.H + h) * P * N;
    const auto c_rows = operand<true>(
        [&](int r, int k) { return tokens[d][r] >= 0 ? rows[tokens[d][r] * row + k] : S(); });
    const auto states = operand<true>([&](int c, int k) {
      return p0 + c < P ? state[static_cast<int64_t>(p0 + c) * N + k] : 0.0f;
    });
    float part[4][4] = {};
    multiply(stages, N, c_rows, states, part);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = first + own_row(r);
      if (!own.has(i)) continue;
      const float weight = kTransposed
                               ? decay(sums[d][far_token(d, s) - s.begin], sums[d][i]) * dts[d][i]
                               : decay(reaches[d][i], {0, 0});
#pragma unroll
      for (int c = 0; c < 4; ++c) acc[r][c] += weight * part[r][c];
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r)
    if (first + own_row(r) < s.rows)
      store_four(
          a.to.data + (s.begin + first + own_row(r)) * a.to.stride + h * P + p0 + own_column(0),
          acc[r], P - p0 - own_column(0));
}

}  // namespace

template <typename S>
cudaError_t multiply_rows(const Problem<S>& p, cudaStream_t stream) {
  products_kernel<<<dim3(4 * p.layout.tiles, p.shape.G), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename S>
cudaError_t apply(const Problem<S>& p, bool transposed, StridedRows<const S> u, const float* states,
                  StridedRows<S> to, cudaStream_t stream) {
  const Arguments<S> a{p, u, states, to};
  const dim3 grid(2 * p.layout.tiles, p.shape.H, chunks(p.shape.P));
  if (transposed)
    apply_kernel<S, true><<<grid, kThreads, 0, stream>>>(a);
  else
    apply_kernel<S, false><<<grid, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

#define HYDRAMIX_PLAIN_SCAN(S)                                                            \
  template cudaError_t multiply_rows(const Problem<S>&, cudaStream_t);                    \
  template cudaError_t apply(const Problem<S>&, bool, StridedRows<const S>, const float*, \
                             StridedRows<S>, cudaStream_t);
HYDRAMIX_PLAIN_SCAN(float)
HYDRAMIX_PLAIN_SCAN(BFloat16)
#undef HYDRAMIX_PLAIN_SCAN

}  // namespace hydramix::cuda::plain
