// SPDX-License-Identifier: Apache-2.0
// Cosine polynomials on the grid of kernels/cpu/gridding.h:
//
//   sum_k v_k cos(2 pi f k),  k < L,  at f = (m + 1/2) / 2 N,  m < N,  N >= 2 L
//
// The coefficients are first divided by the window's Fourier transform w^, so that interpolation
// with the window gives the polynomial itself:
//
//   u_k = v_k / w^(k / 2 N)
//   g_m = sum_k u_k cos(pi k (2 m + 1) / 2 N)
//
// This is a cosine transform of type III, its transpose one of type II. Either is one real FFT of
// length N, which gives the even and the odd rows:
//
//   h_r = Re sum_k u_k exp(i pi k / 2 N) exp(2 pi i k r / N)
//   g_2r = h_r,  g_2r+1 = h_N-1-r
#pragma once

#include <complex>
#include <vector>

#include "hydramix/torch_compat.h"
#include "kernels/cpu/gridding.h"

namespace hydramix {

// Width and polynomials of the window: one instance per floating-point type, computed once.
template <class T>
const kernels::Window<T>& gridding_window();

// Calls f(row of a margin, the row that it mirrors), rows counted from the first of the margin of
// `margin` rows before the grid's N: g_-1-m = g_m and g_N+m = g_N-1-m.
template <class F>
void for_margin_rows(int64_t N, int64_t margin, F f) {
  const auto mirrored = [&](int64_t m) {
    m = (m % (2 * N) + 2 * N) % (2 * N);
    return margin + (m < N ? m : 2 * N - 1 - m);
  };
  for (int64_t m = 1; m <= margin; ++m) {
    f(margin - m, mirrored(-m));
    f(margin + N - 1 + m, mirrored(N - 1 + m));
  }
}

template <class T>
class CosineGrid {
 public:
  explicit CosineGrid(int64_t L);

  int64_t rows() const { return N_; }  // N
  // (L) complex, on the CPU: exp(i pi k / 2 N) / w^(k / 2 N).
  torch::Tensor factors() const;
  // v (L, C), rows p.x_stride apart -> grid (p.rows(), p.row()), margins filled.
  void evaluate(const kernels::Gridding<T>& p, const T* v, T* grid) const;
  // The transpose: grid -> v. Folds the margins of grid in place.
  void collect(const kernels::Gridding<T>& p, T* grid, T* v) const;

 private:
  int64_t L_, N_;
  int64_t fft_batch_;                    // FFTs per batch
  std::vector<std::complex<T>> factor_;  // (L): exp(i pi k / 2 N) / w^(k / 2 N)
};

}  // namespace hydramix
