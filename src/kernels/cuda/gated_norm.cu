// SPDX-License-Identifier: Apache-2.0
// The gated RMS norm. Bound by memory: with n rows of C = Z channels in bfloat16 the forward pass
// moves 6 n C bytes and the backward pass 10 n C; on an H200 (4.2 TB/s) that is 72 and 120 us for
// n = 32768 and C = 1536.
#include "kernels/cuda/norm_lines.cuh"

namespace hydramix::cuda {
namespace {

__device__ __forceinline__ float silu(float z) { return z * sigmoid(z); }

// Contributions of one channel of a row to the gradients.
struct Gradients {
  float dy, dz, dweight;
};
// pull = mean(dout gate weight y) scale, a number of the row.
__device__ __forceinline__ Gradients gradients(float y, float z, float weight, float dout,
                                               float scale, float pull) {
  const float s = sigmoid(z), gate = z * s, slope = s * (1.0f + z * (1.0f - s));
  const float normed = y * scale, gated = dout * gate;
  return {scale * (gated * weight - normed * pull), dout * normed * weight * slope, gated * normed};
}
// A row whose squares overflow has a scale of 0 and no gradient, because 0 times inf would be NaN.
__device__ __forceinline__ float pull_of(float products, float scale, int64_t C) {
  return scale > 0 ? products * scale / static_cast<float>(C) : 0.0f;
}
__device__ __forceinline__ float scale_of(float squares, float eps, int64_t C) {
  return rsqrtf(squares / static_cast<float>(C) + eps);
}

template <typename S, int N>
__global__ void __launch_bounds__(max_threads(N)) gated_forward(const GatedNormForward<S> p) {
  constexpr int V = kWide<S>, K = N / V;
  __shared__ Line<1>::Slots slots;
  Line<1> line(slots);
  const int C = static_cast<int>(p.C);
  float weight[K][V];
  fetch_weights(weight, p.weight, C);
  int gate_at[K];
#pragma unroll
  for (int k = 0; k < K; ++k) gate_at[k] = channel<V>(k) % static_cast<int>(p.Z);

  struct Row {
    Piece<V, S> y[K], z[K];
  } next;
  const auto fetch_row = [&](Row& row, int64_t r) {
    fetch(row.y, p.y, r, C);
#pragma unroll
    for (int k = 0; k < K; ++k)
      row.z[k] = *reinterpret_cast<const Piece<V, S>*>(p.z.data + r * p.z.stride + gate_at[k]);
  };
  if (line.first_row() < p.rows) fetch_row(next, line.first_row());
  for (int64_t r = line.first_row(); r < p.rows; r += line.row_step()) {
    const Row row = next;
    if (r + line.row_step() < p.rows) fetch_row(next, r + line.row_step());
    float squares[1] = {};
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < V; ++i) squares[0] += row.y[k][i] * row.y[k][i];
    line.sum(squares);
    const float scale = scale_of(squares[0], p.eps, p.C);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (channel<V>(k) >= C) continue;
      float out[V];
#pragma unroll
      for (int i = 0; i < V; ++i) out[i] = row.y[k][i] * scale * weight[k][i] * silu(row.z[k][i]);
      store<V>(p.out.data + r * p.out.stride + channel<V>(k), out);
    }
  }
}

// Every channel with a gate of its own: Z = C.
template <typename S, int N>
__global__ void __launch_bounds__(max_threads(N), N == 8 ? 2 : 1)
    gated_backward(const GatedNormBackward<S> p) {
  constexpr int V = kWide<S>, K = N / V;
  __shared__ Line<kMaxLines>::Slots slots;
  extern __shared__ float other_lines[];
  Line<kMaxLines> line(slots);
  const int C = static_cast<int>(p.C);
  float weight[K][V], dweight[K][V] = {};
  fetch_weights(weight, p.weight, C);

  struct Row {
    Piece<V, S> y[K], z[K], dout[K];
  } row, next;
  const auto fetch_row = [&](Row& to, int64_t r) {
    fetch(to.y, p.y, r, C);
    fetch(to.z, p.z, r, C);
    fetch(to.dout, p.dout, r, C);
  };
  // Fetch one row ahead if it fits in registers next to the sums.
  constexpr bool kAhead = sizeof(S) == 2;
  if (kAhead && line.first_row() < p.rows) fetch_row(next, line.first_row());
  for (int64_t r = line.first_row(); r < p.rows; r += line.row_step()) {
    if (kAhead) {
      row = next;
      if (r + line.row_step() < p.rows) fetch_row(next, r + line.row_step());
    } else {
      fetch_row(row, r);
    }
    float sums[2] = {};  // of squares and of products
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < V; ++i) {
        sums[0] += row.y[k][i] * row.y[k][i];
        sums[1] += row.dout[k][i] * silu(row.z[k][i]) * weight[k][i] * row.y[k][i];
      }
    line.sum(sums);
    const float scale = scale_of(sums[0], p.eps, p.C), pull = pull_of(sums[1], scale, p.C);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int c = channel<V>(k);
      if (c >= C) continue;
      row.z[k].forget();
      float dy[V], dz[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const Gradients g =
            gradients(row.y[k][i], row.z[k][i], weight[k][i], row.dout[k][i], scale, pull);
        dy[i] = g.dy, dz[i] = g.dz;
        dweight[k][i] += g.dweight;
      }
      store<V>(p.dy.data + r * p.dy.stride + c, dy);
      store<V>(p.dz.data + r * p.dz.stride + c, dz);
    }
  }
  write_partial(dweight, other_lines, p.workspace + static_cast<int64_t>(blockIdx.x) * C, C);
}

// Any C and Z, value by value; a row is read twice, the second time from a cache if it fits.
template <typename S>
__global__ void __launch_bounds__(512) gated_forward_any(const GatedNormForward<S> p) {
  __shared__ Line<1>::Slots slots;
  Line<1> line(slots);
  for (int64_t r = line.first_row(); r < p.rows; r += line.row_step()) {
    const S* y = p.y.data + r * p.y.stride;
    const S* z = p.z.data + r * p.z.stride;
    float squares[1] = {};
    for (int64_t c = threadIdx.x; c < p.C; c += blockDim.x) squares[0] += widen(y[c]) * widen(y[c]);
    line.sum(squares);
    const float scale = scale_of(squares[0], p.eps, p.C);
    for (int64_t c = threadIdx.x; c < p.C; c += blockDim.x)
      p.out.data[r * p.out.stride + c] =
          narrow<S>(widen(y[c]) * scale * p.weight[c] * silu(widen(z[c % p.Z])));
  }
}

// A thread keeps to its channels of z, and so to its columns of the block's row of partial sums.
template <typename S>
__global__ void __launch_bounds__(512) gated_backward_any(const GatedNormBackward<S> p) {
  __shared__ Line<1>::Slots slots;
  Line<1> line(slots);
  float* dweight = p.workspace + blockIdx.x * p.C;
  for (int64_t c = threadIdx.x; c < p.Z; c += blockDim.x)
    for (int64_t at = c; at < p.C; at += p.Z) dweight[at] = 0;
  for (int64_t r = line.first_row(); r < p.rows; r += line.row_step()) {
    const S* y = p.y.data + r * p.y.stride;
    const S* z = p.z.data + r * p.z.stride;
    const S* dout = p.dout.data + r * p.dout.stride;
    float sums[2] = {};
    for (int64_t c = threadIdx.x; c < p.Z; c += blockDim.x) {
      const float gate = silu(widen(z[c]));
      for (int64_t at = c; at < p.C; at += p.Z) {
        const float v = widen(y[at]);
        sums[0] += v * v;
        sums[1] += widen(dout[at]) * gate * p.weight[at] * v;
      }
    }
    line.sum(sums);
    const float scale = scale_of(sums[0], p.eps, p.C), pull = pull_of(sums[1], scale, p.C);
    for (int64_t c = threadIdx.x; c < p.Z; c += blockDim.x) {
      const float gate = widen(z[c]);
      float dz = 0;
      for (int64_t at = c; at < p.C; at += p.Z) {
        const Gradients g =
            gradients(widen(y[at]), gate, p.weight[at], widen(dout[at]), scale, pull);
        dz += g.dz;
        dweight[at] += g.dweight;
        p.dy.data[r * p.dy.stride + at] = narrow<S>(g.dy);
      }
      p.dz.data[r * p.dz.stride + c] = narrow<S>(dz);
    }
  }
}

template <typename S>
cudaError_t sum_partial_rows(const GatedNormBackward<S>& p, int rows, cudaStream_t stream) {
  return launch_add_parts<false, float>(p.workspace, rows, p.C, p.dweight, nullptr, stream);
}

template <typename S, int N>
cudaError_t launch_forward(const GatedNormForward<S>& p, cudaStream_t stream) {
  return launch_forward_lines(gated_forward<S, N>, p, line_threads(p.C, N), stream);
}

template <typename S, int N>
cudaError_t launch_backward(const GatedNormBackward<S>& p, cudaStream_t stream) {
  const dim3 block = block_of_lines(line_threads(p.C, N), max_threads(N));
  const int blocks = blocks_for(p.rows, block, kPartialRows);
  const size_t shared = sizeof(float) * N * block.x * (block.y - 1);
  gated_backward<S, N><<<blocks, block, shared, stream>>>(p);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  return sum_partial_rows(p, blocks, stream);
}

}  // namespace

int64_t gated_norm_workspace(int64_t C) { return kPartialRows * C; }

template <typename S>
cudaError_t gated_norm_forward(const GatedNormForward<S>& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.C % kWide<S> == 0 && p.Z % kWide<S> == 0 && is_wide_or_none(p.y) && is_wide_or_none(p.z) &&
      is_wide(p.weight, 0) && is_wide_or_none(p.out)) {
    const int values = values_per_thread(p.C, 24);
    if (values == 8) return launch_forward<S, 8>(p, stream);
    if (values == 16) return launch_forward<S, 16>(p, stream);
    if (values == 24) return launch_forward<S, 24>(p, stream);
  }
  return launch_forward_lines(gated_forward_any<S>, p, std::min<int64_t>(line_threads(p.C, 1), 512),
                              stream);
}

template <typename S>
cudaError_t gated_norm_backward(const GatedNormBackward<S>& p, cudaStream_t stream) {
  if (p.rows == 0) return sum_partial_rows(p, 0, stream);
  if (p.Z == p.C && p.C % kWide<S> == 0 && is_wide_or_none(p.y) && is_wide_or_none(p.z) &&
      is_wide(p.weight, 0) && is_wide_or_none(p.dout) && is_wide_or_none(p.dy) &&
      is_wide_or_none(p.dz) && is_wide(p.workspace, 0)) {
    const int values = values_per_thread(p.C, 8);
    if (values == 8) return launch_backward<S, 8>(p, stream);
    if (values == 16) return launch_backward<S, 16>(p, stream);
  }
  const dim3 block(static_cast<unsigned>(std::min<int64_t>(line_threads(p.Z, 1), 512)));
  const int blocks = blocks_for(p.rows, block, kPartialRows);
  gated_backward_any<S><<<blocks, block, 0, stream>>>(p);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  return sum_partial_rows(p, blocks, stream);
}

#define HYDRAMIX_GATED_NORM(S)                                                          \
  template cudaError_t gated_norm_forward<S>(const GatedNormForward<S>&, cudaStream_t); \
  template cudaError_t gated_norm_backward<S>(const GatedNormBackward<S>&, cudaStream_t);
HYDRAMIX_GATED_NORM(float)
HYDRAMIX_GATED_NORM(BFloat16)

}  // namespace hydramix::cuda
