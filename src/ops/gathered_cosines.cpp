// SPDX-License-Identifier: Apache-2.0
#include "ops/gathered_cosines.h"

#include <type_traits>
#include <vector>

#include "ops/cosine_grid.h"

namespace hydramix {
namespace {

constexpr int64_t kSum = 0;  // the mode of embedding_bag

// The sums of the rows of `table` (rows, P) over the bags: entries offsets[b] .. offsets[b + 1] - 1
// of index belong to bag b.
torch::Tensor weighted_sums(const torch::Tensor& table, const torch::Tensor& index,
                            const torch::Tensor& offsets, const torch::Tensor& weight) {
  return std::get<0>(torch::embedding_bag(table, index, offsets, /*scale_grad_by_freq=*/false, kSum,
                                          /*sparse=*/false, weight, /*include_last_offset=*/true));
}

// The window's polynomials as (degree + 1, W), highest power first.
template <class T>
torch::Tensor window_coefficients() {
  const auto& window = gridding_window<T>();
  return torch::from_blob(const_cast<T*>(window.coefficients),
                          {window.degree + 1, kernels::kMaxWindowWidth},
                          c10::CppTypeToScalarType<T>::value)
      .narrow(1, 0, window.width);
}

}  // namespace

GatheredCosines::GatheredCosines(const torch::Tensor& angle, const torch::Tensor& x, double step)
    : shared_(angle.size(0) == 1),
      S_(x.size(0)),
      L_(x.size(1)),
      H_(x.size(2)),
      P_(x.size(3)),
      D_(angle.size(3)),
      heads_(angle.size(0) * angle.size(1)) {
  const torch::NoGradGuard no_grad;
  const auto read = [&](const auto& window, const auto& grid) {
    using T = std::remove_cvref_t<decltype(*window.coefficients)>;
    coefficients_ = window_coefficients<T>();
    margin_ = window.margin();
    N_ = grid.rows();
    factor_ = grid.factors().to(x.device());
  };
  if (x.scalar_type() == torch::kFloat32)
    read(gridding_window<float>(), CosineGrid<float>(L_));
  else
    read(gridding_window<double>(), CosineGrid<double>(L_));
  width_ = coefficients_.size(1);
  rows_ = N_ + 2 * margin_;

  // As in kernels/cpu/gridding.cpp: the frequency modulo 1 in float64, mirrored to half a period.
  auto f = step * angle.to(torch::kFloat64).flatten(0, 1);  // (heads, L, D)
  f = f - f.floor();
  const auto mirrored = f > 0.5;
  f = torch::where(mirrored, 1 - f, f);
  const double period = 2.0 * static_cast<double>(N_), speed = 2 * period * step;
  const auto left = period * f - (0.5 + 0.5 * static_cast<double>(width_)), up = left.ceil();
  const auto type = x.scalar_type();
  s_ = (2 * (up - left) - 1).to(type).flatten();
  slope_ = (mirrored.to(type) * (2 * speed) - speed).flatten();
  // A frequency that is not finite has NaN for s and so for its weights; its row is any valid one.
  const auto row = up.nan_to_num(0.0).to(torch::kInt64) + margin_;
  const auto head = torch::arange(heads_, row.options()).view({heads_, 1, 1});
  first_ = (row + rows_ * head).flatten();
}

torch::Tensor GatheredCosines::by_heads(const torch::Tensor& x) const {
  if (shared_) return x.permute({2, 1, 0, 3}).reshape({H_, L_, S_ * P_});
  return x.permute({0, 2, 1, 3}).reshape({heads_, L_, P_});
}

torch::Tensor GatheredCosines::by_rows(const torch::Tensor& v) const {
  const auto x = shared_ ? v.view({H_, L_, S_, P_}).permute({2, 1, 0, 3})
                         : v.view({S_, H_, L_, P_}).permute({0, 2, 1, 3});
  return x.contiguous();
}

torch::Tensor GatheredCosines::evaluate(const torch::Tensor& v) const {
  // As in ops/cosine_grid.h. An inverse real FFT counts every frequency but the first twice.
  auto spectrum = v.transpose(1, 2) * (0.5 * factor_);  // (heads, C, L)
  spectrum.select(2, 0).mul_(2);
  const auto h = torch::fft::irfft(spectrum, N_, -1, "forward");  // pads with zeros
  const auto even = h.narrow(2, 0, N_ / 2), odd = h.narrow(2, N_ / 2, N_ / 2).flip({2});
  auto grid = torch::empty({heads_, rows_, v.size(2)}, v.options());
  grid.narrow(1, margin_, N_).copy_(torch::stack({even, odd}, -1).flatten(2).transpose(1, 2));
  for_margin_rows(N_, margin_, [&](int64_t there, int64_t here) {
    grid.select(1, there).copy_(grid.select(1, here));
  });
  return grid.flatten(0, 1);
}

torch::Tensor GatheredCosines::collect(const torch::Tensor& flat) const {
  const auto grid = flat.view({heads_, rows_, -1});
  for_margin_rows(N_, margin_, [&](int64_t there, int64_t here) {
    grid.select(1, here).add_(grid.select(1, there));
  });
  const auto g = grid.narrow(1, margin_, N_).transpose(1, 2);  // (heads, C, N)
  const auto pairs = g.unflatten(2, std::vector<int64_t>{N_ / 2, 2});
  const auto h = torch::cat({pairs.select(3, 0), pairs.select(3, 1).flip({2})}, 2);
  const auto u = torch::fft::rfft(h).narrow(2, 0, L_);
  const auto y = torch::real(factor_) * torch::real(u) + torch::imag(factor_) * torch::imag(u);
  return y.transpose(1, 2).contiguous();  // (heads, L, C)
}

torch::Tensor GatheredCosines::weights(int64_t m, bool derivative) const {
  const int64_t degree = coefficients_.size(0) - 1;
  const auto coefficient = [&](int64_t power) {
    const double a = coefficients_[degree - power][m].item<double>();
    return derivative ? a * static_cast<double>(power) : a;
  };
  auto w = torch::full_like(s_, coefficient(degree));
  for (int64_t power = degree - 1; power >= (derivative ? 1 : 0); --power)
    w.mul_(s_).add_(coefficient(power));
  return w;
}

torch::Tensor GatheredCosines::ends_of_tokens() const {
  return torch::arange(0, first_.numel() + 1, D_, first_.options());
}

torch::Tensor GatheredCosines::product(const torch::Tensor& x) const {
  const torch::NoGradGuard no_grad;
  const auto grid = evaluate(by_heads(x));
  const auto ends = ends_of_tokens();
  auto y = weighted_sums(grid, first_, ends, weights(0, false));
  for (int64_t m = 1; m < width_; ++m)
    y.add_(weighted_sums(grid, first_ + m, ends, weights(m, false)));
  return by_rows(y);
}

torch::Tensor GatheredCosines::transposed(const torch::Tensor& x) const {
  const torch::NoGradGuard no_grad;
  const auto tokens = by_heads(x).flatten(0, 1);  // (heads L, C)
  const auto [first, order] = first_.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const auto token = order.div(D_, "floor");
  // The points whose window begins at row b are those between ends[b] and ends[b + 1]. Row m of
  // their window is row b + m of the grid.
  const int64_t all = heads_ * rows_;
  const auto ends = torch::searchsorted(first, torch::arange(all + 1, first.options()));
  auto grid = torch::zeros({all, tokens.size(1)}, x.options());
  for (int64_t m = 0; m < width_; ++m) {
    const auto sums = weighted_sums(tokens, token, ends, weights(m, false).index_select(0, order));
    grid.narrow(0, m, all - m).add_(sums.narrow(0, 0, all - m));
  }
  return by_rows(collect(grid));
}

torch::Tensor GatheredCosines::slope(const torch::Tensor& x, const torch::Tensor& r,
                                     torch::Tensor* y) const {
  const torch::NoGradGuard no_grad;
  const auto grid = evaluate(by_heads(x)), dy = by_heads(r).flatten(0, 1);
  const auto ends = ends_of_tokens();
  const auto token = torch::arange(first_.numel(), first_.options()).div(D_, "floor");
  auto sum = torch::zeros_like(s_);
  torch::Tensor value;
  for (int64_t m = 0; m < width_; ++m) {
    const auto rows_of_points = first_ + m;
    // dy . (the point's row of the grid): the derivative by the weight of a point.
    const auto by_weight =
        at::_embedding_bag_per_sample_weights_backward(dy, grid, rows_of_points, ends, token, kSum);
    sum.addcmul_(by_weight, weights(m, true));
    if (y == nullptr) continue;
    const auto part = weighted_sums(grid, rows_of_points, ends, weights(m, false));
    value = m == 0 ? part : value.add_(part);
  }
  if (y != nullptr) *y = by_rows(value);
  return (sum * slope_).view({shared_ ? 1 : S_, H_, L_, D_});
}

}  // namespace hydramix
