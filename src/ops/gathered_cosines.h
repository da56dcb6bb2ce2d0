// SPDX-License-Identifier: Apache-2.0
// The products of ops/nonuniform_fft.h by LibTorch's operations, on any device. Each grid row and
// each output is a weighted sum of rows that it gathers (embedding_bag), so nothing is scattered
// and the bits are the same on every run. Points are sorted once by the first grid row of their
// window. Then the points of a row are neighbours, and spreading gathers them too.
//
// Cost O(L log L + W d L) per channel in 2 W calls of embedding_bag, W the rows of a window. Memory
// is linear in L.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

class GatheredCosines {
 public:
  // angle: (S or 1, H, L, D), x: (S, L, H, P), of one dtype, float32 or float64.
  GatheredCosines(const torch::Tensor& angle, const torch::Tensor& x, double step);

  // C x and C^T x for x (S, L, H, P).
  torch::Tensor product(const torch::Tensor& x) const;
  torch::Tensor transposed(const torch::Tensor& x) const;
  // The gradient of (r * C x).sum() by angle; also C x if y is not null.
  torch::Tensor slope(const torch::Tensor& x, const torch::Tensor& r, torch::Tensor* y) const;

 private:
  // Heads are those of all sequences, or of one if the sequences share the angles; then C = S P,
  // otherwise C = P. x (S, L, H, P) <-> (heads, L, C).
  torch::Tensor by_heads(const torch::Tensor& x) const;
  torch::Tensor by_rows(const torch::Tensor& v) const;
  // v (heads, L, C) -> the grid with margins, (heads rows, C).
  torch::Tensor evaluate(const torch::Tensor& v) const;
  // The transpose.
  torch::Tensor collect(const torch::Tensor& grid) const;
  // The weights of row m of all windows, or their derivatives by s: (points).
  torch::Tensor weights(int64_t m, bool derivative) const;
  // The points of token t are those from ends[t] to ends[t + 1]: (heads L + 1).
  torch::Tensor ends_of_tokens() const;

  bool shared_;  // all sequences have the same angles
  int64_t S_, L_, H_, P_, D_;
  int64_t heads_;
  int64_t N_, rows_;  // grid rows of a head, without and with margins
  int64_t width_, margin_;
  torch::Tensor coefficients_;  // (degree + 1, W) on the CPU, highest power first
  torch::Tensor factor_;        // (L) complex: exp(i pi k / 2 N) / w^(k / 2 N)
  // For each point (heads L D): the first row of its window in the grids of all heads, its place s
  // in [-1, 1) within the window, and ds / dangle.
  torch::Tensor first_, s_, slope_;
};

}  // namespace hydramix
