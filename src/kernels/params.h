// SPDX-License-Identifier: Apache-2.0
// The parameters of the convolution, the norms and the scan, for the kernels of both devices. Raw
// pointers only: no tensors, no CUDA.
//
// Template parameters are types:
//   S  values per token as they are stored
//   W  weights and their gradients
//   D  dt and delta of the scan; void where flags say which type they have
//   E  the epsilon of a norm
// The defaults are those of the CPU. On a GPU, W and E are float and D is void.
#pragma once

#include <cstdint>

namespace hydramix::kernels {

// The type in which values stored as S are computed with. cpu/storage.h adds bfloat16.
template <typename S>
struct ArithmeticOf {
  using Type = S;
};
template <typename S>
using Arithmetic = typename ArithmeticOf<S>::Type;

// Rows `stride` values apart; the values of a row are contiguous. Null data: not given, or not
// wanted.
template <typename T>
struct StridedRows {
  T* data = nullptr;
  int64_t stride = 0;
};

// ---- Depthwise convolution, bias and SiLU (ops/depthwise_conv.h has the formula) ----

struct ConvShape {
  int64_t n, C;       // tokens of all sequences end to end, channels
  int64_t K, centre;  // 0 <= centre < K
  int64_t silu;       // channels [0, silu) pass SiLU
};

template <typename S, typename W = Arithmetic<S>>
struct ConvForward {
  ConvShape shape;
  StridedRows<const S> x;     // (n, C)
  const W* weight = nullptr;  // (K, C) on the CPU, (C, K) on a GPU
  const W* bias = nullptr;    // (C), or null
  StridedRows<S> y;           // (n, C), apart from x
};

template <typename S, typename W = Arithmetic<S>>
struct ConvBackward {
  ConvShape shape;
  StridedRows<const S> x;
  const W *weight = nullptr, *bias = nullptr;
  StridedRows<const S> dy;  // (n, C)
  StridedRows<S> dx;        // (n, C), apart from x and dy
  // (parts, K + 1, C): the gradients of weight and bias, summed over each part of the tokens.
  W* workspace = nullptr;
  // The sums over all parts, (C, K) and (C) or null. The CPU kernels leave them to their caller.
  W *dweight = nullptr, *dbias = nullptr;
};

// ---- Norms over the channels of a token (ops/norm.h has the formulas) ----

// out = y / sqrt(mean(y^2) + eps) * weight * silu(z). Channel c is gated by z[c % Z].
template <typename S, typename W = Arithmetic<S>, typename E = double>
struct GatedNormForward {
  int64_t rows, C, Z;  // Z divides C
  E eps;
  StridedRows<const S> y;     // (rows, C)
  StridedRows<const S> z;     // (rows, Z)
  const W* weight = nullptr;  // (C)
  StridedRows<S> out;         // (rows, C)
};

template <typename S, typename W = Arithmetic<S>, typename E = double>
struct GatedNormBackward {
  int64_t rows, C, Z;
  E eps;
  StridedRows<const S> y, z;
  const W* weight = nullptr;
  StridedRows<const S> dout;  // (rows, C)
  StridedRows<S> dy;          // (rows, C)
  StridedRows<S> dz;          // (rows, Z)
  W* dweight = nullptr;       // (C), the sum over all parts; the CPU kernel leaves it to its caller
  W* workspace = nullptr;     // (parts, C): the same, summed over each part of the rows
};

// sum = a + b, out = (sum - mean) / sqrt(variance + eps) * weight + bias. If the sum is written,
// the written (rounded) values are normed. R is the type of the residual. The CPU kernels have
// R = S, and neither `sum` nor the outputs and gradients called residual.
template <typename R, typename S, typename W = Arithmetic<S>, typename E = double>
struct LayerNormForward {
  int64_t rows, C;
  E eps;
  StridedRows<const R> a;  // (rows, C), like all that follow
  StridedRows<const S> b;  // or none: the sum is a
  const W *weight = nullptr, *bias = nullptr;
  StridedRows<R> sum = {};           // or none
  StridedRows<S> out = {};           // or none
  StridedRows<R> out_residual = {};  // or none; equal to out
};

// The gradient of the sum is that of a and of b. It has up to three terms: from out, from
// out_residual and from sum.
template <typename R, typename S, typename W = Arithmetic<S>, typename E = double>
struct LayerNormBackward {
  int64_t rows, C;
  E eps;
  StridedRows<const R> a;  // a and b of the forward pass, or its sum and no b
  StridedRows<const S> b;
  const W* weight = nullptr;
  StridedRows<const S> dout = {};
  StridedRows<const R> dout_residual = {};
  StridedRows<const R> dsum = {};
  StridedRows<R> da = {};                  // or none
  StridedRows<S> db = {};                  // or none
  W *dweight = nullptr, *dbias = nullptr;  // (C) each, as in GatedNormBackward
  W* workspace = nullptr;                  // (parts, 2, C): of the weight, then of the bias
};

// ---- The quasiseparable scan (cpu/scan.h and cuda/scan.h have the formula) ----

struct ScanShape {
  int64_t H, P, G, N;
  int64_t shift;           // 0 or 1
  bool on[2];              // which directions there are: forward, backward
  double dt_low, dt_high;  // limits of dt after softplus
};

template <typename S, typename D = Arithmetic<S>>
struct ScanDirectionInputs {
  StridedRows<const D> dt;    // (n, H), before softplus
  StridedRows<const S> b, c;  // (n, G, N)
};

template <typename S, typename W = Arithmetic<S>, typename D = W>
struct ScanInputs {
  StridedRows<const S> x;  // (n, H, P)
  ScanDirectionInputs<S, D> direction[2];
  const W *dt_bias = nullptr, *A = nullptr;  // (H)
  // delta, per token, and a diagonal, the same for all tokens, are added. On the CPU exactly one of
  // them is given.
  const W* diagonal = nullptr;  // (H), or null
  StridedRows<const D> delta;   // (n, H), or none
  // Only if D is void: whether the type is float; otherwise it is S.
  bool dt_is_float = false, delta_is_float = false;
};

// Gradients, in the types of their inputs. Null: not wanted. The CPU kernels want all of x, the
// directions and, where it is an input, delta; they leave dt_bias, A and the diagonal, which are
// sums over tokens, to their caller.
template <typename S, typename D = Arithmetic<S>>
struct ScanDirectionGradients {
  StridedRows<D> dt;    // (n, H)
  StridedRows<S> b, c;  // (n, G, N)
};

template <typename S, typename W = Arithmetic<S>, typename D = W>
struct ScanGradients {
  StridedRows<S> x;  // (n, H, P)
  ScanDirectionGradients<S, D> direction[2];
  W *dt_bias = nullptr, *A = nullptr, *diagonal = nullptr;  // (H)
  StridedRows<D> delta;                                     // (n, H)
};

template <typename S, typename W = Arithmetic<S>, typename D = W>
struct ScanForward {
  ScanShape shape;
  ScanInputs<S, W, D> in;
  StridedRows<S> y;  // (n, H, P)
};

template <typename S, typename W = Arithmetic<S>, typename D = W>
struct ScanBackward {
  ScanShape shape;
  ScanInputs<S, W, D> in;
  StridedRows<const S> dy;  // (n, H, P)
  ScanGradients<S, W, D> out = {};
};

}  // namespace hydramix::kernels
