// SPDX-License-Identifier: Apache-2.0
// The layout of a call from Python: an attention mask, offsets of packed sequences, or neither.
//
// A mask may have holes. Then the tokens of a row are one sequence in their order, as if the
// padding between them were not there: they are moved to the front of the row, and results back.
#pragma once

#include "hydramix/layout.h"

namespace hydramix {

class TokenPlaces {
 public:
  // input (B, L, ...). Throws UsageError unless mask or cu_seqlens, where defined, describes it.
  TokenPlaces(const torch::Tensor& input, const torch::Tensor& mask,
              const torch::Tensor& cu_seqlens);

  const Layout& layout() const { return layout_; }
  // t (B, L, ...), or undefined, in the order that the layout describes.
  torch::Tensor gathered(const torch::Tensor& t) const { return reordered(t, order_); }
  // The inverse.
  torch::Tensor restored(const torch::Tensor& t) const { return reordered(t, inverse_); }

 private:
  static torch::Tensor reordered(const torch::Tensor& t, const torch::Tensor& order);

  Layout layout_;
  torch::Tensor order_, inverse_;  // (B, L) int64; undefined without holes
};

}  // namespace hydramix
