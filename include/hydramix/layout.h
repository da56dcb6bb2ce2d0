// SPDX-License-Identifier: Apache-2.0
// Which places of a (B, L, ...) tensor hold tokens, and to which sequence each belongs.
//
//   Layout()                 every place is a token, every row a sequence
//   Layout::padded(mask)     (B, L), true where a token is: padding on the left, the right or both
//   Layout::packed(offsets)  B = 1: sequence s is the places offsets[s] .. offsets[s + 1] - 1
//
// All mixing is done on *rows*: (S, L', ...), one non-empty sequence a row, its first token at
// place 0, zeros behind its last. So a sequence gives what it would give alone, to rounding,
// whatever stood around it, and padding (even a NaN in it) cannot leak.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

class Layout {
 public:
  Layout() = default;
  static Layout padded(const torch::Tensor& mask);        // (B, L) bool, or integers 0 and 1
  static Layout packed(const torch::Tensor& cu_seqlens);  // (sequences + 1) integers: 0, ..., L

  bool is_full() const { return kind_ == Kind::kFull; }
  // Throws, naming `who`, unless this layout describes tensors of shape (B, L, ...).
  void check(const std::string& who, int64_t B, int64_t L) const;

  torch::Tensor to_rows(const torch::Tensor& t) const;  // (B, L, ...) -> (S, L', ...)
  // (S, L', ...) -> (B, L, ...), zero where there is no token.
  torch::Tensor from_rows(const torch::Tensor& rows) const;
  // The layout of what to_rows() returns.
  Layout of_rows() const;
  // (S, L') bool: true where a row holds a token; undefined when every place does.
  const torch::Tensor& valid() const { return valid_; }
  // Length of the longest sequence; only for layouts that are not full.
  int64_t longest() const { return valid_.size(1); }

 private:
  enum class Kind { kFull, kGathered, kRows };

  // begins[s], lengths[s]: where sequence s starts among the B * L places, and how long it is.
  static Layout gathered(int64_t B, int64_t L, const torch::Tensor& begins,
                         const torch::Tensor& lengths);

  Kind kind_ = Kind::kFull;
  int64_t B_ = 0, L_ = 0;
  torch::Tensor valid_;      // (S, L') bool
  torch::Tensor place_;      // (S * L') int64: the place in B * L of each row entry, 0 for padding
  torch::Tensor token_;      // (tokens) int64: places in B * L that hold tokens, row by row
  torch::Tensor token_row_;  // (tokens) int64: where each of them stands among S * L'
};

}  // namespace hydramix
