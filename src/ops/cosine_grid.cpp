// SPDX-License-Identifier: Apache-2.0
#include "ops/cosine_grid.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/fourier.h"

namespace hydramix {
namespace {

using kernels::Gridding;
using kernels::kMaxWindowWidth;

// Modified Bessel function I_0: all terms of its power series are positive.
long double bessel_i0(long double x) {
  long double sum = 1, term = 1;
  for (int k = 1; term > 1e-21L * sum; ++k) sum += term *= x * x / (4.0L * k * k);
  return sum;
}

// Kaiser-Bessel: I_0(beta sqrt(1 - (2 z / width)^2)) / I_0(beta) for |z| <= width / 2 grid rows.
// With oversampling 2, beta = 3/4 pi width puts the first alias where the transform has decayed.
struct KaiserBessel {
  explicit KaiserBessel(int64_t rows)
      : width(static_cast<double>(rows)), beta(0.75 * M_PI * width), top(bessel_i0(beta)) {}

  long double operator()(long double z) const {
    const long double t = 2 * z / width;
    return bessel_i0(beta * std::sqrt(std::max(0.0L, 1 - t * t))) / top;
  }
  // At xi cycles per row, |xi| <= 1/4.
  double fourier(double xi) const {
    const double a = M_PI * width * xi, b = std::sqrt(beta * beta - a * a);
    return width * std::sinh(b) / (b * static_cast<double>(top));
  }

  double width, beta;
  long double top;
};

// The window between two rows as polynomials in s in [-1, 1): evaluating a Bessel function for each
// weight would cost more than the rest of the gridding.
template <class T>
struct WindowTable {
  // Each additional row gives about one more digit (docs/math.md). The polynomials are exact to
  // rounding.
  static constexpr bool kSingle = std::is_same_v<T, float>;
  static constexpr int64_t kWidth = kSingle ? 8 : 15, kDegree = kSingle ? 10 : 18;

  WindowTable() {
    const KaiserBessel phi(kWidth);
    constexpr int n = kDegree + 1;
    const auto node = [](int k) { return static_cast<long double>(M_PI) * (k + 0.5L) / n; };
    for (int64_t m = 0; m < kWidth; ++m) {
      // Chebyshev interpolation, then sum_j a_j T_j(s) in powers of s: T_j+1 = 2 s T_j - T_j-1.
      std::vector<long double> power(n), previous(n), current(n);
      current[0] = 1;
      for (int j = 0; j < n; ++j) {
        long double a = 0;
        for (int k = 0; k < n; ++k)
          a += phi((std::cos(node(k)) + 1) / 2 + m - kWidth / 2.0L) * std::cos(j * node(k));
        a *= (j == 0 ? 1.0L : 2.0L) / n;
        std::vector<long double> next(n);
        for (int i = 0; i < n; ++i) {
          power[i] += a * current[i];
          next[i] = (i > 0 ? (j == 0 ? 1 : 2) * current[i - 1] : 0) - previous[i];
        }
        previous = current;
        current = next;
      }
      for (int i = 0; i < n; ++i)
        coefficients[(kDegree - i) * kMaxWindowWidth + m] = static_cast<T>(power[i]);
    }
  }

  alignas(kernels::kGridAlign) T coefficients[(kDegree + 1) * kMaxWindowWidth] = {};
  kernels::Window<T> window{kWidth, kDegree, coefficients};
};

// Transposes four lines at a time. More lines, a power of two apart, would evict each other from
// the cache.
template <class F>
void by_fours(int64_t lines, F f) {
  int64_t l = 0;
  for (; l + 4 <= lines; l += 4) f(l, std::integral_constant<int64_t, 4>());
  for (; l < lines; ++l) f(l, std::integral_constant<int64_t, 1>());
}

template <class T>
torch::TensorOptions type_of() {
  return torch::TensorOptions(c10::CppTypeToScalarType<T>::value);
}

}  // namespace

template <class T>
const kernels::Window<T>& gridding_window() {
  static const WindowTable<T> table;
  return table.window;
}

template <class T>
CosineGrid<T>::CosineGrid(int64_t L)
    : L_(L),
      N_(2 * fast_fft_size(L)),
      fft_batch_(fft_batch_size(N_)),
      factor_(static_cast<std::size_t>(L)) {
  const KaiserBessel phi(WindowTable<T>::kWidth);
  for (int64_t k = 0; k < L; ++k) {
    const double xi = static_cast<double>(k) / static_cast<double>(2 * N_);
    factor_[k] = std::complex<T>(std::polar(1 / phi.fourier(xi), M_PI * xi));
  }
}

template <class T>
torch::Tensor CosineGrid<T>::factors() const {
  auto t = torch::empty({L_}, type_of<c10::complex<T>>());
  for (int64_t k = 0; k < L_; ++k) t.template data_ptr<c10::complex<T>>()[k] = factor_[k];
  return t;
}

template <class T>
void CosineGrid<T>::evaluate(const Gridding<T>& p, const T* v, T* grid) const {
  const int64_t row = p.row(), margin = p.window.margin(), N = N_, K = N / 2 + 1;
  if (row != p.C) std::fill_n(grid, p.rows() * row, T(0));
  const int64_t lines = std::min(fft_batch_, p.C);
  auto spectrum = torch::zeros({lines, K}, type_of<c10::complex<T>>());
  auto* u = spectrum.template data_ptr<c10::complex<T>>();
  for (int64_t c = 0; c < p.C; c += lines) {
    const int64_t n = std::min(lines, p.C - c);
    by_fours(n, [&](int64_t line, auto count) {
      const T* in = v + c + line;
      auto* out = u + line * K;
      for (int64_t k = 0; k < L_; ++k, in += p.x_stride, ++out) {
        // An inverse real FFT counts every frequency but the first twice.
        const std::complex<T> f = factor_[k] * T(k == 0 ? 1 : 0.5);
        for (int64_t l = 0; l < count; ++l) out[l * K] = {f.real() * in[l], f.imag() * in[l]};
      }
    });
    const auto h = torch::fft::irfft(spectrum.narrow(0, 0, n), N, -1, "forward").contiguous();
    by_fours(n, [&](int64_t line, auto count) {
      const T* in = h.template data_ptr<T>() + line * N;
      T* even = grid + margin * row + c + line;
      T* odd = even + (N - 1) * row;  // h_N/2, h_N/2+1, ... are the odd rows, last row first
      for (int64_t r = 0; r < N / 2; ++r, even += 2 * row, odd -= 2 * row)
        for (int64_t l = 0; l < count; ++l) {
          even[l] = in[l * N + r];
          odd[l] = in[l * N + N / 2 + r];
        }
    });
  }
  for_margin_rows(N, margin, [&](int64_t there, int64_t here) {
    std::copy_n(grid + here * row, row, grid + there * row);
  });
}

template <class T>
void CosineGrid<T>::collect(const Gridding<T>& p, T* grid, T* v) const {
  const int64_t row = p.row(), margin = p.window.margin(), N = N_, K = N / 2 + 1;
  for_margin_rows(N, margin, [&](int64_t there, int64_t here) {
    for (int64_t c = 0; c < row; ++c) grid[here * row + c] += grid[there * row + c];
  });
  const int64_t lines = std::min(fft_batch_, p.C);
  auto h = torch::empty({lines, N}, type_of<T>());
  for (int64_t c = 0; c < p.C; c += lines) {
    const int64_t n = std::min(lines, p.C - c);
    by_fours(n, [&](int64_t line, auto count) {
      T* out = h.template data_ptr<T>() + line * N;
      const T* even = grid + margin * row + c + line;
      const T* odd = even + (N - 1) * row;
      for (int64_t r = 0; r < N / 2; ++r, even += 2 * row, odd -= 2 * row)
        for (int64_t l = 0; l < count; ++l) {
          out[l * N + r] = even[l];
          out[l * N + N / 2 + r] = odd[l];
        }
    });
    const auto spectrum = torch::fft::rfft(h.narrow(0, 0, n)).contiguous();
    by_fours(n, [&](int64_t line, auto count) {
      const auto* u = spectrum.template data_ptr<c10::complex<T>>() + line * K;
      T* y = v + c + line;
      for (int64_t k = 0; k < L_; ++k, y += p.x_stride, ++u)
        for (int64_t l = 0; l < count; ++l)
          y[l] = factor_[k].real() * u[l * K].real() + factor_[k].imag() * u[l * K].imag();
    });
  }
}

template const kernels::Window<float>& gridding_window<float>();
template const kernels::Window<double>& gridding_window<double>();
template class CosineGrid<float>;
template class CosineGrid<double>;

}  // namespace hydramix
