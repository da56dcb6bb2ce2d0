// SPDX-License-Identifier: Apache-2.0
// How the selective scan is cut into pieces, its workspace, and the sums over pieces and channels.
#include "kernels/cuda/selective_scan.h"

#include <algorithm>

#include "kernels/cuda/limits.h"
#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/reference_gpu.h"
#include "kernels/cuda/selective_scan_launch.cuh"
#include "kernels/cuda/workspace.h"

namespace hydramix::cuda {
namespace {

using namespace selective;

int64_t tile_of(const SelectiveScanShape& s) { return s.N < 16 ? 2 * s.N : 32; }
// Blocks of `threads` that share the channels of a piece.
int64_t channel_blocks(const SelectiveScanShape& s, int64_t threads, int64_t own) {
  return ceil_div(s.C, threads * own / s.N);
}
int64_t backward_blocks(const SelectiveScanShape& s) { return channel_blocks(s, kThreads, kOwn); }

struct Cut {
  int64_t piece, pieces;
  bool independent;   // every piece begins with a sequence
  bool many = false;  // of the forward pass: Arguments::many
};

// Enough pieces for three blocks per multiprocessor. Whole sequences where they are equally long
// and there are enough of them, because a state that is carried costs another pass.
Cut cut_for(const SelectiveScanShape& s, int64_t blocks) {
  const int64_t tile = tile_of(s);
  const int64_t wanted = std::max<int64_t>(1, 3 * kReferenceProcessors / blocks);
  if (s.length > 0 && s.length % tile == 0) {
    const int64_t sequences = s.n / s.length;
    if (sequences * blocks >= kReferenceProcessors || s.n <= 16 * tile) {
      const int64_t each = ceil_div(sequences, std::min(wanted, sequences));
      return {each * s.length, ceil_div(sequences, each), true};
    }
  }
  const int64_t piece = ceil_div(std::max(ceil_div(s.n, wanted), 4 * tile), tile) * tile;
  const int64_t pieces = ceil_div(s.n, piece);
  return {piece, pieces, pieces == 1};
}

// Threads of the forward pass own many states unless fewer than two blocks per multiprocessor
// would be left.
Cut cut(const SelectiveScanShape& s, bool backward) {
  if (backward) return cut_for(s, backward_blocks(s));
  if (s.N >= kManyOwn) {
    const int64_t blocks = channel_blocks(s, kForwardThreads, kManyOwn);
    Cut many = cut_for(s, blocks);
    many.many = true;
    if (many.pieces * blocks >= 2 * kReferenceProcessors) return many;
  }
  return cut_for(s, channel_blocks(s, kForwardThreads, kOwn));
}

bool is_shape(const SelectiveScanShape& s) {
  return s.n >= 0 && s.n < kMostTokens && s.C >= 1 && s.C < kMostTokens / 64 &&
         selective_scan_fits(s) && s.length >= 0 && (s.length == 0 || s.n % s.length == 0);
}

// Arrays of a pass in its workspace. Without a workspace it only counts bytes.
template <typename S>
Pieces divide(const SelectiveScanShape& s, bool backward, void* workspace, Arguments<S>& p) {
  const Cut c = cut(s, backward);
  const auto states = static_cast<std::size_t>(c.pieces * s.C * s.N);
  const auto channels = static_cast<std::size_t>(c.pieces * s.C);
  Pieces pieces(workspace);
  if (!c.independent) {
    p.carried = pieces.take<float>(states);
    p.through = pieces.take<float>(channels);
  }
  if (backward) {
    p.dA = pieces.take<float>(states);
    p.dbias = pieces.take<float>(channels);
    p.dskip = pieces.take<float>(channels);
    p.dbc = pieces.take<float>(static_cast<std::size_t>(backward_blocks(s) * s.n * 2 * s.N));
  }
  return pieces;
}

std::size_t workspace_bytes(const SelectiveScanShape& s, bool backward) {
  if (!is_shape(s) || s.n == 0) return 0;
  Arguments<float> unused{};
  return divide(s, backward, nullptr, unused).bytes();
}

template <typename S>
Arguments<S> arguments(const SelectiveScanShape& s, const SelectiveScanInputs<S>& in,
                       const int2* bounds, bool backward) {
  Arguments<S> p{};
  p.n = static_cast<int>(s.n), p.C = static_cast<int>(s.C);
  const Cut c = cut(s, backward);
  p.piece = static_cast<int>(std::min<int64_t>(c.piece, kMostTokens));
  p.many = c.many;
  p.reverse = s.reverse, p.dt_low = s.dt_low, p.dt_high = s.dt_high;
  p.bounds = bounds, p.in = in;
  return p;
}

template <typename T>
bool is_wide(const kernels::StridedRows<T>& rows) {
  return cuda::is_wide(rows.data, rows.stride);
}

template <typename Launch>
cudaError_t with_states(int64_t N, const Launch& launch) {
  switch (N) {
    case 4:
      return launch(std::integral_constant<int, 1>{});
    case 8:
      return launch(std::integral_constant<int, 2>{});
    case 16:
      return launch(std::integral_constant<int, 4>{});
    case 32:
      return launch(std::integral_constant<int, 8>{});
    default:
      return launch(std::integral_constant<int, 16>{});
  }
}

// The sums over blocks of channels: partial (blocks, n, 2 N) -> db, dc (n, N).
template <typename S>
__global__ void add_channels_kernel(const float* partial, int blocks, int64_t n, int N,
                                    kernels::StridedRows<S> db, kernels::StridedRows<S> dc) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n * 2 * N) return;
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < blocks; ++k) sum += partial[k * n * 2 * N + i];
  const int64_t row = i / (2 * N), column = i % (2 * N);
  const auto& to = column < N ? db : dc;
  to.data[row * to.stride + column % N] = narrow<S>(sum);
}

}  // namespace

bool selective_scan_fits(const SelectiveScanShape& s) {
  return s.N == 4 || s.N == 8 || s.N == 16 || s.N == 32 || s.N == 64;
}

int64_t selective_scan_states(const SelectiveScanShape& s) {
  return is_shape(s) ? ceil_div(s.n, tile_of(s)) * s.C * s.N : 0;
}

std::size_t selective_scan_forward_workspace(const SelectiveScanShape& s) {
  return workspace_bytes(s, false);
}
std::size_t selective_scan_backward_workspace(const SelectiveScanShape& s) {
  return workspace_bytes(s, true);
}

template <typename S>
cudaError_t selective_scan_forward(const SelectiveScanForward<S>& pass, const int2* bounds,
                                   cudaStream_t stream) {
  const SelectiveScanShape& s = pass.shape;
  if (!is_shape(s)) return cudaErrorInvalidValue;
  if (s.n == 0) return cudaSuccess;
  auto p = arguments(s, pass.in, bounds, false);
  p.y = pass.y, p.states = pass.states;
  divide(s, false, pass.workspace, p);
  const bool wide = s.C % (kThreads * kOwn / s.N) == 0 && is_wide(pass.in.x) &&
                    is_wide(pass.in.dt) && is_wide(pass.y);
  return with_states(s.N, [&](auto Q) { return launch_forward<Q>(p, wide, stream); });
}

template <typename S>
cudaError_t selective_scan_backward(const SelectiveScanBackward<S>& pass, const int2* bounds,
                                    cudaStream_t stream) {
  const SelectiveScanShape& s = pass.shape;
  if (!is_shape(s)) return cudaErrorInvalidValue;
  Arguments<S> p{};
  int64_t pieces = 0;  // without tokens the sums are zero, and are written too
  if (s.n > 0) {
    p = arguments(s, pass.in, bounds, true);
    p.states = const_cast<float*>(pass.states), p.dy = pass.dy, p.dx = pass.dx, p.ddt = pass.ddt;
    divide(s, true, pass.workspace, p);
    pieces = cut(s, true).pieces;
    const bool wide = s.C % (kThreads * kOwn / s.N) == 0 && is_wide(pass.in.x) &&
                      is_wide(pass.in.dt) && is_wide(pass.dy) && is_wide(pass.dx) &&
                      is_wide(pass.ddt);
    const auto error =
        with_states(s.N, [&](auto Q) { return launch_backward<Q>(p, wide, stream); });
    if (error != cudaSuccess) return error;
    const int64_t values = s.n * 2 * s.N;
    add_channels_kernel<<<static_cast<unsigned>(ceil_div<int64_t>(values, 256)), 256, 0, stream>>>(
        p.dbc, static_cast<int>(backward_blocks(s)), s.n, static_cast<int>(s.N), pass.db, pass.dc);
    if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  }
  if (const auto e = launch_add_parts<false>(p.dA, pieces, s.C * s.N, pass.dA,
                                             static_cast<float*>(nullptr), stream);
      e != cudaSuccess)
    return e;
  if (const auto e = launch_add_parts<false>(p.dbias, pieces, s.C, pass.dbias,
                                             static_cast<float*>(nullptr), stream);
      e != cudaSuccess || pass.dskip == nullptr)
    return e;
  return launch_add_parts<false>(p.dskip, pieces, s.C, pass.dskip, static_cast<float*>(nullptr),
                                 stream);
}

#define HYDRAMIX_SELECTIVE(S)                                                                   \
  template cudaError_t selective_scan_forward<S>(const SelectiveScanForward<S>&, const int2*,   \
                                                 cudaStream_t);                                 \
  template cudaError_t selective_scan_backward<S>(const SelectiveScanBackward<S>&, const int2*, \
                                                  cudaStream_t);
HYDRAMIX_SELECTIVE(float)
HYDRAMIX_SELECTIVE(BFloat16)

}  // namespace hydramix::cuda
