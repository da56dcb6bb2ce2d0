// SPDX-License-Identifier: Apache-2.0
// How the gated scan is cut into segments, its workspace, and the order of its passes.
#include "kernels/cuda/gated_scan.h"

#include <algorithm>

#include "kernels/cuda/gated_scan_launch.cuh"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/reference_gpu.h"
#include "kernels/cuda/workspace.h"

namespace hydramix::cuda {
namespace {

using namespace gated;

int64_t windows_of(const GatedScanShape& s) { return ceil_div<int64_t>(s.n, kWindow); }

// Whether some sequence may cross the border of a window.
bool has_states(const GatedScanShape& s) {
  return windows_of(s) > 1 && !(s.length > 0 && kWindow % s.length == 0);
}

struct Segments {
  int64_t windows;   // of a segment
  bool independent;  // no sequence is in two of them
};

// Enough walks for three blocks per multiprocessor. Sequence by sequence where they are equally
// long and there are enough of them, because a state that is carried costs another walk.
Segments segments_of(const GatedScanShape& s) {
  if (s.length > 0 && s.length % kWindow == 0 && s.n / s.length * s.H >= kReferenceProcessors)
    return {s.length / kWindow, true};
  const int64_t windows = windows_of(s);
  const int64_t wanted = std::max<int64_t>(1, 3 * kReferenceProcessors / s.H);
  const int64_t segment = std::max<int64_t>(ceil_div(windows, wanted), 4);
  return {segment, segment >= windows};
}

bool is_size(int64_t v) { return v == 32 || v == 64 || v == 128; }

bool is_shape(const GatedScanShape& s) {
  return s.n >= 0 && s.n < kMostTokens && s.H >= 1 && s.H < (1 << 16) && is_size(s.N) &&
         is_size(s.P) && s.length >= 0 && (s.length == 0 || s.n % s.length == 0) &&
         windows_of(s) * s.H < int64_t{1} << 31;
}

// Arrays of a pass in its workspace. Without a workspace it only counts bytes.
Pieces divide(const GatedScanShape& s, bool backward, void* workspace, Walks& w) {
  Pieces pieces(workspace);
  if (!has_states(s)) return pieces;
  const Segments segments = segments_of(s);
  w.segment = static_cast<int>(segments.windows);
  if (!segments.independent) {
    const int64_t walks = ceil_div(windows_of(s), segments.windows) * s.H;
    w.ends = pieces.take<float>(static_cast<std::size_t>(walks * s.N * s.P));
    w.through = pieces.take<float>(static_cast<std::size_t>(walks * s.N));
  }
  if (backward) w.states = pieces.take<BFloat16>(static_cast<std::size_t>(gated_scan_states(s)));
  return pieces;
}

std::size_t workspace_bytes(const GatedScanShape& s, bool backward) {
  Walks unused{};
  return is_shape(s) ? divide(s, backward, nullptr, unused).bytes() : 0;
}

template <typename T>
bool is_wide(const kernels::StridedRows<T>& rows) {
  return cuda::is_wide(rows.data, rows.stride);
}

template <typename G>
bool are_wide(const GatedScanInputs<G>& in) {
  return is_wide(in.q) && is_wide(in.k) && is_wide(in.g) && is_wide(in.x);
}

template <typename G>
Arguments arguments(const GatedScanShape& s, const GatedScanInputs<G>& in, const int2* bounds) {
  Arguments a{};
  a.n = static_cast<int>(s.n), a.H = static_cast<int>(s.H);
  a.reverse = s.reverse, a.float_gates = sizeof(G) == 4;
  a.bounds = bounds;
  a.q = in.q, a.k = in.k, a.x = in.x;
  a.g = {in.g.data, in.g.stride};
  return a;
}

}  // namespace

bool gated_scan_fits(const GatedScanShape& s, bool gradients) {
  int device = 0, most = 0;
  if (!is_size(s.N) || !is_size(s.P) || cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return false;
  return with_sizes(s.N, s.P, [&](auto N, auto P) {
    return output_shared<N, P>() <= most && (!gradients || gradient_shared<N, P>() <= most);
  });
}

int64_t gated_scan_states(const GatedScanShape& s) {
  return is_shape(s) && has_states(s) ? windows_of(s) * s.H * s.N * s.P : 0;
}

std::size_t gated_scan_forward_workspace(const GatedScanShape& s) {
  return workspace_bytes(s, false);
}
std::size_t gated_scan_backward_workspace(const GatedScanShape& s) {
  return workspace_bytes(s, true);
}

template <typename G>
cudaError_t gated_scan_forward(const GatedScanForward<G>& pass, const int2* bounds,
                               cudaStream_t stream) {
  const GatedScanShape& s = pass.shape;
  if (!is_shape(s)) return cudaErrorInvalidValue;
  if (s.n == 0) return cudaSuccess;
  if (!are_wide(pass.in) || !is_wide(pass.y)) return cudaErrorMisalignedAddress;
  Arguments a = arguments(s, pass.in, bounds);
  a.states = pass.states, a.y = pass.y;
  Walks walks{};
  divide(s, false, pass.workspace, walks);
  walks.states = pass.states;
  return with_sizes(s.N, s.P, [&](auto N, auto P) {
    if (has_states(s))
      if (const auto e = launch_states<N, P>(a, walks, false, stream); e != cudaSuccess) return e;
    return launch_output<N, P>(a, stream);
  });
}

template <typename G>
cudaError_t gated_scan_backward(const GatedScanBackward<G>& pass, const int2* bounds,
                                cudaStream_t stream) {
  const GatedScanShape& s = pass.shape;
  if (!is_shape(s)) return cudaErrorInvalidValue;
  if (s.n == 0) return cudaSuccess;
  if (!are_wide(pass.in) || !is_wide(pass.dy) || !is_wide(pass.dq) || !is_wide(pass.dk) ||
      !is_wide(pass.dg) || !is_wide(pass.dx))
    return cudaErrorMisalignedAddress;
  Arguments a = arguments(s, pass.in, bounds);
  Walks walks{};
  divide(s, true, pass.workspace, walks);
  a.states = pass.states, a.dstates = walks.states, a.dy = pass.dy;
  a.dq = pass.dq, a.dk = pass.dk, a.dx = pass.dx;
  a.dg = {pass.dg.data, pass.dg.stride};
  return with_sizes(s.N, s.P, [&](auto N, auto P) {
    if (has_states(s))
      if (const auto e = launch_states<N, P>(a, walks, true, stream); e != cudaSuccess) return e;
    return launch_gradient<N, P>(a, stream);
  });
}

#define HYDRAMIX_GATED(G)                                                               \
  template cudaError_t gated_scan_forward<G>(const GatedScanForward<G>&, const int2*,   \
                                             cudaStream_t);                             \
  template cudaError_t gated_scan_backward<G>(const GatedScanBackward<G>&, const int2*, \
                                              cudaStream_t);
HYDRAMIX_GATED(float)
HYDRAMIX_GATED(BFloat16)

}  // namespace hydramix::cuda
