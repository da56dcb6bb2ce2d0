// SPDX-License-Identifier: Apache-2.0
// A thread walks over a piece of the tokens with the states of two neighbouring channels in its
// registers. The rows of the next tokens are on their way while those of the last ones are used.
//
// A sequence may be cut by the ends of pieces. A first pass then walks over only those tokens whose
// state leaves their piece, and a small kernel carries the states from piece to piece: a state that
// passes through a whole piece is multiplied by lambda^piece.
#include "kernels/cuda/complex_scan.h"

#include <algorithm>

#include "kernels/cuda/limits.h"
#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/reference_gpu.h"
#include "kernels/cuda/workspace.h"

namespace hydramix::cuda {
namespace {

constexpr int kMostThreads = 128;  // of a block
constexpr int kOwn = 2;            // channels of a thread, or 1 where rows are not aligned
constexpr int kAhead = 4;          // tokens whose rows are loaded together
constexpr int64_t kShortest = 64;  // tokens of a piece, at least
// The kernel that carries states visits pieces one after the other.
constexpr int64_t kMostPieces = 512;

struct Complex {
  double re, im;
};

// lambda h + x
__device__ __forceinline__ Complex advance(const Complex& lambda, const Complex& h,
                                           const Complex& x) {
  return {fma(-lambda.im, h.im, fma(lambda.re, h.re, x.re)),
          fma(lambda.im, h.re, fma(lambda.re, h.im, x.im))};
}

// Computed by repeated squaring. The relative error of float64 grows with `count`, as in `count`
// steps of the recurrence.
__device__ __forceinline__ Complex power(Complex base, int count) {
  Complex product{1, 0};
  for (; count > 0; count /= 2) {
    if (count % 2 == 1) product = advance(base, product, {0, 0});
    base = advance(base, base, {0, 0});
  }
  return product;
}

struct Walk {
  int n, C, piece;  // piece: tokens of a block
  const int2* bounds;
  // (pieces, 2, C): the state that leaves a piece which is entered with zero, and later the one
  // that it is entered with. Null if every piece begins with a sequence.
  double* carried;
  double* sums;  // (pieces, 2, C): of the gradient of lambda
};

// The pass of a thread: its channels and the tokens of its piece.
template <int V>
struct Place {
  int channel, begin, end;
  int64_t at;  // of the piece and the channel in (pieces, 2, C)
  __device__ __forceinline__ explicit Place(const Walk& w)
      : channel((blockIdx.x * blockDim.x + threadIdx.x) * V),
        begin(blockIdx.y * w.piece),
        end(min(begin + w.piece, w.n)),
        at(int64_t{blockIdx.y} * 2 * w.C + channel) {}
};

template <int V>
__device__ __forceinline__ void load_complex(const double* re, const double* im, Complex (&to)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) to[v] = {re[v], im[v]};
}
template <int V>
__device__ __forceinline__ void store_complex(double* re, double* im, const Complex (&from)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) re[v] = from[v].re, im[v] = from[v].im;
}

template <typename T>
__device__ __forceinline__ T* row_at(const kernels::StridedRows<T>& rows, int token) {
  return rows.data + token * rows.stride;
}

// kOutput: fills y. Otherwise computes what leaves the piece.
template <int V, bool kOutput, typename S>
__global__ void __launch_bounds__(kMostThreads, 6)
    forward_kernel(const ComplexScanForward<S> p, const Walk w) {
  const Place<V> own(w);
  if (own.channel >= w.C) return;
  Complex lambda[V], h[V] = {};
  load_complex(p.re + own.channel, p.im + own.channel, lambda);
  int begin = own.begin;
  const int end = own.end;
  if (!kOutput) {
    const int2 last = w.bounds[end - 1];
    begin = last.y > end ? max(begin, last.x) : end;
  } else if (w.carried != nullptr) {
    load_complex(w.carried + own.at, w.carried + own.at + w.C, h);
  }

  struct Rows {
    Packed<S, V> x[kAhead];
    int first[kAhead];  // tokens of their sequences
  } now, next;
  const auto fetch = [&](int token, Rows& rows) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (token + j < end) {
        rows.x[j] = load_packed<V>(row_at(p.x, token + j) + own.channel);
        if (kOutput) rows.first[j] = __ldg(&w.bounds[token + j].x);
      }
  };
  fetch(begin, now);
  for (int token = begin; token < end; token += kAhead) {
    fetch(token + kAhead, next);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (token + j >= end) break;
      const bool begins = kOutput && now.first[j] == token + j;
      float re[V], im[V];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (begins) h[v] = {0, 0};
        h[v] = advance(lambda[v], h[v], {now.x[j][v], 0});
        re[v] = static_cast<float>(h[v].re), im[v] = static_cast<float>(h[v].im);
      }
      if (kOutput) {
        S* to = row_at(p.y, token + j) + own.channel;
        store(to, re);
        store(to + w.C, im);
      }
    }
    now = next;
  }
  if (!kOutput) store_complex(w.carried + own.at, w.carried + own.at + w.C, h);
}

// The gradient g of h runs backwards with the conjugate. Those of x and lambda follow from it:
//
//   g_t = dy_t + conj(lambda) g_{t+1},   dx_t = Re g_t,   dlambda = sum_t conj(h_{t-1}) g_t
template <int V, bool kOutput, typename S>
__global__ void __launch_bounds__(kMostThreads, 4)
    backward_kernel(const ComplexScanBackward<S> p, const Walk w) {
  const Place<V> own(w);
  if (own.channel >= w.C) return;
  Complex lambda[V], g[V] = {}, sum[V] = {};
  load_complex(p.re + own.channel, p.im + own.channel, lambda);
#pragma unroll
  for (int v = 0; v < V; ++v) lambda[v].im = -lambda[v].im;
  const int begin = own.begin;
  int end = own.end;
  if (!kOutput) {
    const int2 first = w.bounds[begin];
    end = first.x < begin ? min(end, first.y) : begin;
  } else if (w.carried != nullptr) {
    load_complex(w.carried + own.at, w.carried + own.at + w.C, g);
  }

  struct Rows {
    Packed<S, V> dre[kAhead], dim[kAhead];  // dy
    Packed<S, V> re[kAhead], im[kAhead];    // h of the token before
    int2 bounds[kAhead];
  } now, next;
  // Row j is that of token - j.
  const auto fetch = [&](int token, Rows& rows) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (token - j >= begin) {
        const S* dy = row_at(p.dy, token - j) + own.channel;
        rows.dre[j] = load_packed<V>(dy);
        rows.dim[j] = load_packed<V>(dy + w.C);
        if (!kOutput) continue;
        rows.bounds[j] = __ldg(&w.bounds[token - j]);
        const S* before = row_at(p.y, max(token - j - 1, 0)) + own.channel;
        rows.re[j] = load_packed<V>(before);
        rows.im[j] = load_packed<V>(before + w.C);
      }
  };
  fetch(end - 1, now);
  for (int token = end - 1; token >= begin; token -= kAhead) {
    fetch(token - kAhead, next);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (token - j < begin) break;
      const bool ends = kOutput && now.bounds[j].y == token - j + 1;
      const bool begins = kOutput && now.bounds[j].x == token - j;
      float dx[V];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (ends) g[v] = {0, 0};
        g[v] = advance(lambda[v], g[v], {now.dre[j][v], now.dim[j][v]});
        dx[v] = static_cast<float>(g[v].re);
        // The token before belongs to another sequence, which may hold a NaN.
        if (kOutput && !begins) sum[v] = advance({now.re[j][v], -now.im[j][v]}, g[v], sum[v]);
      }
      if (kOutput) store(row_at(p.dx, token - j) + own.channel, dx);
    }
    now = next;
  }
  if (kOutput)
    store_complex(w.sums + own.at, w.sums + own.at + w.C, sum);
  else
    store_complex(w.carried + own.at, w.carried + own.at + w.C, g);
}

// Replaces the state that leaves each piece by the one that the piece is entered with. kBack: the
// gradient of the state, from the last piece to the first.
template <bool kBack>
__global__ void carry_kernel(const Walk w, int pieces, const double* re, const double* im) {
  const int channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= w.C) return;
  const Complex through = power({re[channel], kBack ? -im[channel] : im[channel]}, w.piece);
  constexpr int kTogether = 16;  // loads of several pieces at once: a store would hold them up
  Complex h{0, 0};
  for (int first = 0; first < pieces; first += kTogether) {
    Complex left[kTogether];
    bool joined[kTogether];  // one sequence fills the piece and began before it
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      if (first + k < pieces) {
        const int piece = kBack ? pieces - 1 - first - k : first + k;
        const int begin = piece * w.piece, end = min(begin + w.piece, w.n);
        const double* at = w.carried + int64_t{piece} * 2 * w.C + channel;
        left[k] = {at[0], at[w.C]};
        joined[k] = kBack ? w.bounds[begin].y > end : w.bounds[end - 1].x < begin;
      }
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      if (first + k < pieces) {
        const int piece = kBack ? pieces - 1 - first - k : first + k;
        double* at = w.carried + int64_t{piece} * 2 * w.C + channel;
        at[0] = h.re, at[w.C] = h.im;
        h = joined[k] ? advance(through, h, left[k]) : left[k];
      }
  }
}

// Threads of a block, if each owns two channels.
int64_t threads_of(const ComplexScanShape& s) {
  return std::min<int64_t>(kMostThreads, ceil_div<int64_t>(ceil_div<int64_t>(s.C, kOwn), 32) * 32);
}

struct Cut {
  int64_t piece, pieces;
  bool independent;  // every piece begins with a sequence
};

// Enough pieces for 1024 threads per multiprocessor. Whole sequences where they are equally long
// and make half as many threads, because a state that is carried costs another pass.
Cut cut(const ComplexScanShape& s) {
  const int64_t threads = threads_of(s) * ceil_div(s.C, kOwn * threads_of(s));
  constexpr int64_t kFull = int64_t{1024} * kReferenceProcessors;
  if (s.length > 0) {
    const int64_t sequences = s.n / s.length;
    // A grid has fewer than 65536 pieces.
    const int64_t each =
        std::max(ceil_div(kShortest, s.length), ceil_div<int64_t>(sequences, 1 << 15));
    const int64_t pieces = ceil_div(sequences, each);
    if (2 * pieces * threads >= kFull) return {each * s.length, pieces, true};
  }
  const int64_t wanted = std::clamp<int64_t>(kFull / threads, 1, kMostPieces);
  const int64_t piece = std::max(ceil_div(s.n, wanted), kShortest), pieces = ceil_div(s.n, piece);
  return {piece, pieces, pieces == 1};
}

bool is_shape(const ComplexScanShape& s) {
  return s.n >= 0 && s.n < kMostTokens && s.C >= 1 && s.C < kMostTokens / 64 && s.length >= 0 &&
         (s.length == 0 || s.n % s.length == 0);
}

// The arrays of a pass in its workspace. Without a workspace it only counts bytes.
Pieces divide(const ComplexScanShape& s, bool backward, void* workspace, Walk& w) {
  const Cut c = cut(s);
  const auto values = static_cast<std::size_t>(c.pieces * 2 * s.C);
  Pieces pieces(workspace);
  if (!c.independent) w.carried = pieces.take<double>(values);
  if (backward) w.sums = pieces.take<double>(values);
  return pieces;
}

std::size_t workspace_bytes(const ComplexScanShape& s, bool backward) {
  if (!is_shape(s) || s.n == 0) return 0;
  Walk unused{};
  return divide(s, backward, nullptr, unused).bytes();
}

Walk walk_of(const ComplexScanShape& s, const int2* bounds, bool backward, void* workspace) {
  Walk w{};
  w.n = static_cast<int>(s.n), w.C = static_cast<int>(s.C);
  w.piece = static_cast<int>(std::min(cut(s).piece, kMostTokens));
  w.bounds = bounds;
  divide(s, backward, workspace, w);
  return w;
}

// Whether kOwn values at a time of rows with C values each can be accessed.
template <typename T>
bool in_pairs(const kernels::StridedRows<T>& rows, int64_t C) {
  return C % kOwn == 0 && rows.stride % kOwn == 0 &&
         reinterpret_cast<uintptr_t>(rows.data) % (kOwn * sizeof(T)) == 0;
}

template <int V, class Pass>
cudaError_t launch_walk(void (*kernel)(const Pass, const Walk), const Pass& pass, const Walk& w,
                        cudaStream_t stream) {
  const int64_t threads = threads_of(pass.shape);
  const dim3 grid(static_cast<unsigned>(ceil_div(pass.shape.C, threads * V)),
                  static_cast<unsigned>(cut(pass.shape).pieces));
  kernel<<<grid, static_cast<unsigned>(threads), 0, stream>>>(pass, w);
  return cudaGetLastError();
}

template <bool kBack>
cudaError_t launch_carry(const Walk& w, int64_t pieces, const double* re, const double* im,
                         cudaStream_t stream) {
  const auto kernel = carry_kernel<kBack>;
  kernel<<<static_cast<unsigned>(ceil_div(w.C, 64)), 64, 0, stream>>>(w, static_cast<int>(pieces),
                                                                      re, im);
  return cudaGetLastError();
}

template <int V, typename S>
cudaError_t launch_forward(const ComplexScanForward<S>& pass, const Walk& w, cudaStream_t stream) {
  if (w.carried != nullptr) {
    if (const auto e = launch_walk<V>(forward_kernel<V, false, S>, pass, w, stream);
        e != cudaSuccess)
      return e;
    if (const auto e = launch_carry<false>(w, cut(pass.shape).pieces, pass.re, pass.im, stream);
        e != cudaSuccess)
      return e;
  }
  return launch_walk<V>(forward_kernel<V, true, S>, pass, w, stream);
}

template <int V, typename S>
cudaError_t launch_backward(const ComplexScanBackward<S>& pass, const Walk& w,
                            cudaStream_t stream) {
  if (w.carried != nullptr) {
    if (const auto e = launch_walk<V>(backward_kernel<V, false, S>, pass, w, stream);
        e != cudaSuccess)
      return e;
    if (const auto e = launch_carry<true>(w, cut(pass.shape).pieces, pass.re, pass.im, stream);
        e != cudaSuccess)
      return e;
  }
  return launch_walk<V>(backward_kernel<V, true, S>, pass, w, stream);
}

}  // namespace

std::size_t complex_scan_forward_workspace(const ComplexScanShape& s) {
  return workspace_bytes(s, false);
}
std::size_t complex_scan_backward_workspace(const ComplexScanShape& s) {
  return workspace_bytes(s, true);
}

template <typename S>
cudaError_t complex_scan_forward(const ComplexScanForward<S>& pass, const int2* bounds,
                                 cudaStream_t stream) {
  const ComplexScanShape& s = pass.shape;
  if (!is_shape(s)) return cudaErrorInvalidValue;
  if (s.n == 0) return cudaSuccess;
  const Walk w = walk_of(s, bounds, false, pass.workspace);
  return in_pairs(pass.x, s.C) && in_pairs(pass.y, s.C) ? launch_forward<kOwn>(pass, w, stream)
                                                        : launch_forward<1>(pass, w, stream);
}

template <typename S>
cudaError_t complex_scan_backward(const ComplexScanBackward<S>& pass, const int2* bounds,
                                  cudaStream_t stream) {
  const ComplexScanShape& s = pass.shape;
  if (!is_shape(s)) return cudaErrorInvalidValue;
  Walk w{};
  int64_t pieces = 0;  // without tokens the sums are zero, and are written too
  if (s.n > 0) {
    w = walk_of(s, bounds, true, pass.workspace);
    pieces = cut(s).pieces;
    const bool pairs = in_pairs(pass.y, s.C) && in_pairs(pass.dy, s.C) && in_pairs(pass.dx, s.C);
    if (const auto e =
            pairs ? launch_backward<kOwn>(pass, w, stream) : launch_backward<1>(pass, w, stream);
        e != cudaSuccess)
      return e;
  }
  return launch_add_parts<false>(w.sums, pieces, s.C, pass.dre, pass.dim, stream);
}

#define HYDRAMIX_COMPLEX(S)                                                                 \
  template cudaError_t complex_scan_forward<S>(const ComplexScanForward<S>&, const int2*,   \
                                               cudaStream_t);                               \
  template cudaError_t complex_scan_backward<S>(const ComplexScanBackward<S>&, const int2*, \
                                                cudaStream_t);
HYDRAMIX_COMPLEX(float)
HYDRAMIX_COMPLEX(BFloat16)

}  // namespace hydramix::cuda
