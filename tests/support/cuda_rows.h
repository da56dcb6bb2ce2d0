// SPDX-License-Identifier: Apache-2.0
// Matrices that are columns of wider ones, for tests of kernels over rows.
#pragma once

#include <algorithm>

#include "kernels/cuda/norm.h"
#include "support/cuda.h"

namespace hydramix::cuda {

using BFloat16 = __nv_bfloat16;
using Values = std::vector<double>;

// Relative, by norm: for float a few roundings of 6e-8, and __expf with up to |z| of them; the
// rounding of bfloat16 alone is at most 2^-8. Tests with short rows use a large eps, because the
// gradient of a short row is the difference of two nearly equal numbers.
template <typename S>
constexpr double kTolerance = sizeof(S) == 2 ? 4e-3 : 2e-6;

// Extra columns on both sides of the matrix.
struct Beside {
  int64_t before = 0, after = 0;
};

// A matrix on the device within a wider one, NaN around it.
template <typename S>
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, Beside beside, const Values& values = {})
      : rows_(rows),
        columns_(columns),
        beside_(beside),
        stride_(beside.before + columns + beside.after),
        buffer_(surrounded(values)) {}

  StridedRows<const S> in() const { return {buffer_.data() + beside_.before, stride_}; }
  StridedRows<S> out() const { return {buffer_.data() + beside_.before, stride_}; }

  // The values of the matrix; fails if something was written next to it.
  Values values() const {
    const auto all = buffer_.host();
    Values result;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < stride_; ++c) {
        const double v = wide(all[static_cast<std::size_t>(r * stride_ + c)]);
        if (c >= beside_.before && c < beside_.before + columns_)
          result.push_back(v);
        else
          EXPECT_TRUE(std::isnan(v)) << "row " << r << ", column " << c << " of " << stride_;
      }
    return result;
  }

 private:
  std::vector<S> surrounded(const Values& values) const {
    std::vector<S> all(static_cast<std::size_t>(rows_ * stride_), S(NAN));
    if (values.empty()) return all;
    const auto kept = stored<S>(values);
    for (int64_t r = 0; r < rows_; ++r)
      std::copy_n(kept.begin() + r * columns_, columns_,
                  all.begin() + r * stride_ + beside_.before);
    return all;
  }

  int64_t rows_, columns_;
  Beside beside_;
  int64_t stride_;
  DeviceBuffer<S> buffer_;
};

template <typename S>
Values rounded(const Values& values) {
  return widened(stored<S>(values));
}
inline DeviceBuffer<float> floats(const Values& values) {
  return DeviceBuffer<float>(stored<float>(values));
}
inline bool all_finite(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}
inline std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace hydramix::cuda
