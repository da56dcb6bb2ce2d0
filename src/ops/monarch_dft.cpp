// SPDX-License-Identifier: Apache-2.0
#include "ops/monarch_dft.h"

#include <algorithm>
#include <cmath>

#include "ops/cosine.h"
#include "ops/product.h"

namespace hydramix {
namespace {

// Multiplies v (S, rows, 2, ...), with real and imaginary parts in dimension 2, by re + i im. The
// result has its parts in dimension `pairs`.
torch::Tensor complex_product(const torch::Tensor& v, const torch::Tensor& re,
                              const torch::Tensor& im, int64_t pairs = 2) {
  const auto x = v.select(2, 0), y = v.select(2, 1);
  return torch::stack({x * re - y * im, x * im + y * re}, pairs);
}

}  // namespace

MonarchDft::MonarchDft(int64_t min_size, const torch::TensorOptions& options) {
  // The transforms of size b are complex and cost four times those of size a, so a = 4 b is best.
  b_ = std::max<int64_t>(1, std::llround(std::sqrt(static_cast<double>(min_size)) / 2));
  a_ = (min_size + b_ - 1) / b_;
  const int64_t rows = a_ / 2 + 1;
  // Tables are recomputed in every call: their O(N) cosines are cheap beside the O(N^1.5) products.
  first_ = torch::cat({cosine_table(rows, a_, a_, options), -sine_table(rows, a_, a_, options)});
  auto weight = torch::full({rows}, 2.0 / static_cast<double>(size()), options);
  weight[0] = 1.0 / static_cast<double>(size());
  if (a_ % 2 == 0) weight[rows - 1] = 1.0 / static_cast<double>(size());
  last_ = (first_ * weight.repeat({2}).unsqueeze(1)).t();
  const auto cos = cosine_table(b_, b_, b_, options), sin = sine_table(b_, b_, b_, options);
  second_ = torch::cat({torch::cat({cos, sin}, 1), torch::cat({-sin, cos}, 1)});
  const auto twiddle_cos = cosine_table(rows, b_, size(), options).unsqueeze(2),
             twiddle_sin = sine_table(rows, b_, size(), options).unsqueeze(2);
  twiddle_ = torch::stack({twiddle_cos, -twiddle_sin});
  inverse_twiddle_ = torch::stack({twiddle_cos, twiddle_sin});
}

// Multiplies v (S, rows, 2, b, C) by a table (2 b, 2 b): the transforms of size b.
torch::Tensor MonarchDft::small_transform(const torch::Tensor& table,
                                          const torch::Tensor& v) const {
  const int64_t batch = v.size(0) * v.size(1);
  return matrix_product(table.expand({batch, 2 * b_, 2 * b_}),
                        v.reshape({batch, 2 * b_, v.size(4)}))
      .view(v.sizes());
}

torch::Tensor MonarchDft::forward(const torch::Tensor& v) const {
  const int64_t S = v.size(0), C = v.size(2), runs = (v.size(1) + b_ - 1) / b_;
  const auto grid = torch::constant_pad_nd(v, {0, 0, 0, runs * b_ - v.size(1)});
  const auto table = first_.narrow(1, 0, runs);  // columns for padding are not needed
  const auto across =
      matrix_product(table.expand({S, table.size(0), runs}), grid.reshape({S, runs, b_ * C}));
  const auto rows = across.view({S, 2, a_ / 2 + 1, b_, C}).transpose(1, 2);
  return small_transform(second_, complex_product(rows, twiddle_[0], twiddle_[1]));
}

torch::Tensor MonarchDft::inverse(const torch::Tensor& spectrum, int64_t places) const {
  const int64_t S = spectrum.size(0), C = spectrum.size(4), runs = (places + b_ - 1) / b_;
  const auto rows = complex_product(small_transform(second_.t(), spectrum), inverse_twiddle_[0],
                                    inverse_twiddle_[1], 1);
  const auto table = last_.narrow(0, 0, runs);
  const auto grid =
      matrix_product(table.expand({S, runs, table.size(1)}), rows.view({S, table.size(1), b_ * C}));
  return grid.view({S, runs * b_, C}).narrow(1, 0, places);
}

torch::Tensor monarch_toeplitz_product(const torch::Tensor& t, const torch::Tensor& x) {
  const int64_t L = x.size(1), H = x.size(2), P = x.size(3);
  const MonarchDft dft(2 * L - 1, x.options());
  // A cyclic product of length N >= 2 L - 1 holds every lag once: lag k at index k mod N.
  const auto gap = torch::zeros({t.size(0), H, dft.size() - (2 * L - 1)}, t.options());
  const auto cyclic = torch::cat({t.narrow(2, L - 1, L), gap, t.narrow(2, 0, L - 1)}, 2);
  const auto kernel = dft.forward(cyclic.transpose(1, 2)).unsqueeze(5);  // (.., 2, b, H, 1)
  const auto v = dft.forward(x.flatten(2));                              // (S, .., 2, b, H P)
  const auto product = complex_product(v.unflatten(4, std::vector<int64_t>{H, P}),
                                       kernel.select(2, 0), kernel.select(2, 1));
  return dft.inverse(product.flatten(4), L).unflatten(2, std::vector<int64_t>{H, P});
}

}  // namespace hydramix
