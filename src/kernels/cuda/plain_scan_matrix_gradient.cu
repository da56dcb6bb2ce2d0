// SPDX-License-Identifier: Apache-2.0
// Gradients of the plain scan's matrix. With dM_ij = dy_i . x_j and L_ij = 2^(reach_i - sum_j), so
// that M_ij = (c . b)_ij L_ij dt_j, a head gives
//
//   d(c . b)_ij += dM_ij L_ij dt_j                    summed over the heads of a group
//   term_ij = dM_ij (c . b)_ij L_ij                   of dt_j; dt_j term_ij is of all decays in
//   L_ij
//
// Terms with j = source(i) have no decay and are kept apart, because they would only cancel. The
// others are summed in float64 over rows and over columns, so that differences of these sums are as
// exact as the terms.
#include <algorithm>

#include "kernels/cuda/plain_scan_parts.cuh"
#include "kernels/cuda/reference_gpu.h"

namespace hydramix::cuda::plain {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kEnoughBlocks = 4 * kReferenceProcessors;  // to keep a large GPU busy

// One quarter of a tile's matrix, for a run of heads of one group.
template <typename S>
__global__ void __launch_bounds__(kThreads, 2)
    matrix_gradient_kernel(const Problem<S> p, const StridedRows<const S> dy,
                           const Gathered gathered) {
  __shared__ Stage stages[2];
  __shared__ Log sums[2][kBlock], reaches[2][kBlock];
  __shared__ double columns[kWarps][2][kBlock];
  __shared__ float dts[2][kBlock];
  __shared__ Window sequences[kBlock];  // of rows i; terms between sequences are zero
  const int P = p.shape.P, H = p.shape.H, shift = p.shape.shift, runs = gathered.runs;
  const int64_t n = p.layout.n;
  const int tile = blockIdx.x / 4, g = blockIdx.y / runs, run = blockIdx.y % runs;
  const int i0 = blockIdx.x / 2 % 2 * kBlock, j0 = blockIdx.x % 2 * kBlock;
  const int block = i0 == j0 ? 0 : 1;
  const Span s = tile_span(p.layout, tile);
  if (i0 >= s.rows || j0 >= s.rows) return;
  const auto on = [&](int d) { return p.shape.on[d] && (d == 0 ? i0 >= j0 : i0 <= j0); };
  if (block == 1 && !on(0) && !on(1)) return;

  const int heads = H / p.shape.G, length = (heads + runs - 1) / runs;
  const int last = min((run + 1) * length, heads);
  const int64_t square = static_cast<int64_t>(tile) * p.shape.G + g;
  const float* products = p.products.matrices + square * kSquare;
  for (int r = threadIdx.x; r < kBlock && i0 + r < s.rows; r += kThreads)
    sequences[r] = sequence_rows(p.layout, s, i0 + r);
  float product[4][4], dproduct[4][4] = {};
#pragma unroll
  for (int r = 0; r < 4; ++r)
    load<4>(products + (i0 + own_row(r)) * kTile + j0 + own_column(0), product[r]);

  for (int h = g * heads + run * length; h < g * heads + last; ++h) {
    for (int q = threadIdx.x; q < 2 * kBlock; q += kThreads) {
      const int d = q / kBlock, r = q % kBlock;
      if (!on(d)) continue;
      const double* all = p.steps.sums_of(d, h);
      if (i0 + r < s.rows) reaches[d][r] = split(reach_of(all, d, shift, s, i0 + r));
      if (j0 + r < s.rows) {
        sums[d][r] = split(all[s.begin + j0 + r]);
        dts[d][r] = p.steps.dts_of(d, h)[s.begin + j0 + r];
      }
    }
    const auto rows = operand<true>([&](int r, int k) {
      return i0 + r < s.rows ? dy.data[(s.begin + i0 + r) * dy.stride + h * P + k] : S();
    });
    const auto x = operand<true>([&](int c, int k) {
      return j0 + c < s.rows ? p.in.x.data[(s.begin + j0 + c) * p.in.x.stride + h * P + k] : S();
    });
    float dm[4][4] = {};
    multiply(stages, P, rows, x, dm);

    double row_sums[2][4] = {}, column_sums[2][4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int i = i0 + own_row(r), j = j0 + own_column(c);
        if (i >= s.rows || !sequences[own_row(r)].has(j)) continue;
        if (i == j) gathered.diagonal[h * n + s.begin + j] = dm[r][c];
#pragma unroll
        for (int d = 0; d < 2; ++d) {
          if (!on(d) || !(d == 0 ? j < i : j > i)) continue;
          const float dt = dts[d][own_column(c)];
          const float v = dm[r][c] * decay(reaches[d][own_row(r)], sums[d][own_column(c)]);
          const float term = v * product[r][c];
          dproduct[r][c] += v * dt;
          if (shift == 1 && (d == 0 ? i - j : j - i) == 1) {
            gathered.neighbours[p.steps.at(d, h) + s.begin + j] = term;
          } else {
            row_sums[d][r] += static_cast<double>(term) * dt;
            column_sums[d][c] += term;
          }
        }
      }
    const auto at = [&](int d, int r) {
      return ((static_cast<int64_t>(d) * kBlocks + block) * H + h) * n + s.begin + r;
    };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int d = 0; d < 2; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const double row = half_warp_sum(row_sums[d][e]);
        if (lane % 16 == 0 && on(d) && i0 + own_row(e) < s.rows)
          gathered.reaches[at(d, i0 + own_row(e))] = row;
        const double column =
            column_sums[d][e] + __shfl_xor_sync(0xffffffffu, column_sums[d][e], 16);
        if (lane < 16) columns[warp][d][own_column(e)] = column;
      }
    __syncthreads();
    for (int q = threadIdx.x; q < 2 * kBlock; q += kThreads) {
      const int d = q / kBlock, c = q % kBlock;
      if (!on(d) || j0 + c >= s.rows) continue;
      double sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += columns[w][d][c];
      gathered.entries[at(d, j0 + c)] = sum;
    }
  }
  float* to = gathered.matrices +
              (static_cast<int64_t>(run) * p.layout.tiles * p.shape.G + square) * kSquare;
#pragma unroll
  for (int r = 0; r < 4; ++r)
    store<4>(to + (i0 + own_row(r)) * kTile + j0 + own_column(0), dproduct[r]);
}

}  // namespace

int gradient_runs(const DeviceShape& shape, const ScanLayout& layout) {
  const int heads = shape.H / shape.G;
  const int64_t blocks = std::max<int64_t>(1, int64_t{4} * layout.tiles * shape.G);
  const int wanted =
      static_cast<int>(std::min<int64_t>(heads, ceil_div<int64_t>(kEnoughBlocks, blocks)));
  return ceil_div(heads, ceil_div(heads, wanted));
}

template <typename S>
cudaError_t matrix_gradient(const Problem<S>& p, StridedRows<const S> dy, const Gathered& gathered,
                            cudaStream_t stream) {
  const dim3 grid(4 * p.layout.tiles, p.shape.G * gathered.runs);
  matrix_gradient_kernel<<<grid, kThreads, 0, stream>>>(p, dy, gathered);
  return cudaGetLastError();
}

template cudaError_t matrix_gradient(const Problem<float>&, StridedRows<const float>,
                                     const Gathered&, cudaStream_t);
template cudaError_t matrix_gradient(const Problem<BFloat16>&, StridedRows<const BFloat16>,
                                     const Gathered&, cudaStream_t);

}  // namespace hydramix::cuda::plain
