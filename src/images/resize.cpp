// SPDX-License-Identifier: Apache-2.0
#include "images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "hydramix/error.h"
#include "kernels/cpu/resample.h"

namespace hydramix {
namespace {

double filter_support(Interpolation kind) { return kind == Interpolation::kBilinear ? 1.0 : 2.0; }

double filter_value(Interpolation kind, double x) {
  x = std::abs(x);
  if (kind == Interpolation::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// An interval along one axis, and the outputs it is resampled to.
struct Axis {
  double begin, length;                                        // in pixels of the image
  int64_t size;                                                // outputs for the interval
  int64_t first, outputs;                                      // those that are computed
  int64_t low() const { return static_cast<int64_t>(begin); }  // the pixels that it touches
  int64_t high() const { return static_cast<int64_t>(std::ceil(begin + length)); }
};

// The inputs of each output, counted from axis.low(), and their weights.
struct TapTable {
  std::vector<int32_t> first, count, weights;
  int64_t stride = 0;

  TapTable(const Axis& axis, Interpolation kind);
  kernels::ResampleTaps taps() const {
    return {first.data(), count.data(), weights.data(), static_cast<int64_t>(first.size()), stride};
  }
  int64_t begin() const { return first.front(); }
  int64_t end() const { return first.back() + count.back(); }
};

TapTable::TapTable(const Axis& axis, Interpolation kind) {
  const int64_t inputs = axis.high() - axis.low();
  const double offset = axis.begin - static_cast<double>(axis.low());
  const double scale = axis.length / static_cast<double>(axis.size);
  const double width = std::max(scale, 1.0);  // of the filter: wider where the image shrinks
  const double support = filter_support(kind) * width, inverse = 1.0 / width;
  stride = 2 * static_cast<int64_t>(std::ceil(support)) + 1;
  weights.resize(static_cast<std::size_t>(axis.outputs * stride));
  std::vector<double> exact(static_cast<std::size_t>(stride));
  for (int64_t i = 0; i < axis.outputs; ++i) {
    const double centre = offset + (static_cast<double>(axis.first + i) + 0.5) * scale;
    const auto low = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - support + 0.5)));
    const auto high = std::min(inputs, static_cast<int64_t>(std::floor(centre + support + 0.5)));
    double sum = 0;
    for (int64_t k = low; k < high; ++k) {
      const double weight = filter_value(kind, (static_cast<double>(k) - centre + 0.5) * inverse);
      exact[static_cast<std::size_t>(k - low)] = weight;
      sum += weight;
    }
    first.push_back(static_cast<int32_t>(low));
    count.push_back(static_cast<int32_t>(high - low));
    for (int64_t k = 0; k < high - low; ++k) {
      double weight = exact[static_cast<std::size_t>(k)];
      if (sum != 0) weight /= sum;
      weights[static_cast<std::size_t>(i * stride + k)] =
          static_cast<int32_t>(weight * (1 << kernels::kResampleBits) + (weight < 0 ? -0.5 : 0.5));
    }
  }
}

void check_resizing(const Image& image, const Resizing& r) {
  const ImageBox& box = r.source;
  HYDRAMIX_CHECK(box.height > 0 && box.width > 0 && box.top >= 0 && box.left >= 0 &&
                     box.top + box.height <= static_cast<double>(image.height) &&
                     box.left + box.width <= static_cast<double>(image.width),
                 "resize: the source of ", box.height, " x ", box.width, " pixels at (", box.top,
                 ", ", box.left, ") does not lie in an image of ", image.height, " x ", image.width,
                 ".");
  const PixelBox& window = r.window;
  HYDRAMIX_CHECK(
      window.height >= 1 && window.width >= 1 && window.top >= 0 && window.left >= 0 &&
          window.top + window.height <= r.size.height && window.left + window.width <= r.size.width,
      "resize: the window of ", window.height, " x ", window.width, " pixels at (", window.top,
      ", ", window.left, ") does not lie in a result of ", r.size.height, " x ", r.size.width, ".");
}

}  // namespace

Image resize(const Image& image, const Resizing& r) {
  check_resizing(image, r);
  const Axis across{r.source.left, r.source.width, r.size.width, r.window.left, r.window.width};
  const Axis down{r.source.top, r.source.height, r.size.height, r.window.top, r.window.height};
  const TapTable columns(across, r.interpolation), rows(down, r.interpolation);

  // The kernel reads and writes one byte after the end of a row.
  const auto row_bytes = static_cast<std::size_t>(3 * r.window.width);
  const auto source_bytes = static_cast<std::size_t>(3 * (across.high() - across.low()));
  std::vector<uint8_t> source(source_bytes + 1);
  std::vector<uint8_t> narrowed(static_cast<std::size_t>(rows.end() - rows.begin()) * row_bytes +
                                1);
  for (int64_t y = rows.begin(); y < rows.end(); ++y) {
    std::memcpy(source.data(), image.pixel(down.low() + y, across.low()), source_bytes);
    kernels::resample_columns(
        source.data(), columns.taps(),
        narrowed.data() + static_cast<std::size_t>(y - rows.begin()) * row_bytes);
  }

  Image out(r.window.height, r.window.width);
  for (std::size_t y = 0; y < rows.first.size(); ++y)
    kernels::resample_rows(
        narrowed.data() + static_cast<std::size_t>(rows.first[y] - rows.begin()) * row_bytes,
        3 * r.window.width, rows.weights.data() + static_cast<int64_t>(y) * rows.stride,
        rows.count[y], out.rgb.data() + y * row_bytes);
  return out;
}

}  // namespace hydramix
