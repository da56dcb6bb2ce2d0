// SPDX-License-Identifier: Apache-2.0
// The two halves of a non-uniform FFT that are not an FFT: values of a gridded function between its
// grid points, and the transpose, values spread to the grid points around them.
//
// The function is even and 1-periodic in the frequency f, so half a period is kept. Grid row m is
//
//   f = (m + 1/2) / (2 N),  m = 0 .. N - 1
//
// A margin of rows on both sides holds (or collects) the mirror images. A row has C contiguous
// channels; vectors are taken along them. Preconditions, not checked: those in the comments of the
// structs; no two arrays overlap; grids are aligned.
#pragma once

#include <cstdint>

namespace hydramix::kernels {

constexpr int64_t kMaxWindowWidth = 16;
// Rows of a grid are this many bytes, or a multiple: one vector of the widest instruction set.
constexpr int64_t kGridAlign = 64;
constexpr int64_t kMaxChannelBytes = 256;

// The window around a point covers `width` grid rows; its weight there is a polynomial in the
// point's place s in [-1, 1) between two rows.
template <class T>
struct Window {
  int64_t width = 0, degree = 0;
  const T* coefficients =
      nullptr;  // (degree + 1, kMaxWindowWidth), highest power first, padded with 0
  int64_t margin() const { return width / 2 + 1; }
};

template <class T>
struct Gridding {
  const T* angle;  // (L, D): frequencies of point i are step angle[i, d], any real number
  double step;
  int64_t L, D, N;
  int64_t C;         // channels, C sizeof(T) <= kMaxChannelBytes
  int64_t x_stride;  // elements between rows of x, y and r
  Window<T> window;

  // Elements of a grid row.
  int64_t row() const {
    const int64_t lanes = kGridAlign / static_cast<int64_t>(sizeof(T));
    return (C + lanes - 1) / lanes * lanes;
  }
  int64_t rows() const { return N + 2 * window.margin(); }
};

// grid: (rows, row), margins and channels after C filled. y (L, C): y_i = sum_d grid(f_id).
void interpolate(const Gridding<float>& p, const float* grid, float* y);
void interpolate(const Gridding<double>& p, const double* grid, double* y);
// The derivative against r (L, C): dangle[i, d] = step sum_c r_ic grid'(f_id)_c, (L, D); and y as
// above, unless it is null.
void interpolate_with_slope(const Gridding<float>& p, const float* grid, const float* r,
                            float* dangle, float* y);
void interpolate_with_slope(const Gridding<double>& p, const double* grid, const double* r,
                            double* dangle, double* y);
// The transpose of interpolate: adds x_i, (L, C), to the grid around every f_id.
void spread(const Gridding<float>& p, const float* x, float* grid);
void spread(const Gridding<double>& p, const double* x, double* grid);

}  // namespace hydramix::kernels
