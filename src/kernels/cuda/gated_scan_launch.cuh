// SPDX-License-Identifier: Apache-2.0
// The launchers of the passes of the gated scan, which several files define.
#pragma once

#include "kernels/cuda/gated_scan_parts.cuh"

namespace hydramix::cuda::gated {

// The states at the borders of windows, or their gradients.
struct Walks {
  BFloat16* states;  // (windows, H, N, P)
  int segment;       // windows that a block walks through
  // Null if no sequence is in two segments. (segments, H, N, P): the state that a segment adds, and
  // later the one that it starts from; (segments, H, N): the logarithm of its decay.
  float *ends, *through;
};

template <int N, int P>
cudaError_t launch_states(const Arguments& a, const Walks& walks, bool gradient,
                          cudaStream_t stream);
template <int N, int P>
cudaError_t launch_output(const Arguments& a, cudaStream_t stream);
template <int N, int P>
cudaError_t launch_gradient(const Arguments& a, cudaStream_t stream);
// Bytes of shared memory of a block.
template <int N, int P>
int output_shared();
template <int N, int P>
int gradient_shared();

template <typename Kernel>
cudaError_t allow_dynamic_shared(Kernel* kernel, int bytes) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// Calls f(N, P) with integral constants. N and P are 32, 64 or 128.
template <typename F>
auto with_sizes(int64_t N, int64_t P, const F& f) {
  const auto with_values = [&](auto n) {
    if (P == 32) return f(n, std::integral_constant<int, 32>{});
    if (P == 64) return f(n, std::integral_constant<int, 64>{});
    return f(n, std::integral_constant<int, 128>{});
  };
  if (N == 32) return with_values(std::integral_constant<int, 32>{});
  if (N == 64) return with_values(std::integral_constant<int, 64>{});
  return with_values(std::integral_constant<int, 128>{});
}

#define HYDRAMIX_GATED_SIZES(define)                                                          \
  define(32, 32) define(32, 64) define(32, 128) define(64, 32) define(64, 64) define(64, 128) \
      define(128, 32) define(128, 64) define(128, 128)

}  // namespace hydramix::cuda::gated
