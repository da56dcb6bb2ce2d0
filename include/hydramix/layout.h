// SPDX-License-Identifier: Apache-2.0
// Which positions of a (B, L, ...) tensor hold tokens, and to which sequence each belongs.
//
//   Layout()                 every position is a token, every row a sequence
//   Layout::padded(mask)     (B, L), true where a token is: padding on the left, the right or both
//   Layout::packed(offsets)  B = 1: sequence s is the positions offsets[s] .. offsets[s + 1] - 1
//
// Computation runs on *tokens*, (1, n, ...) with the sequences end to end. Algorithms that need a
// rectangle run on *rows*: (S, L', ...), one non-empty sequence per row, its first token at
// position 0, zeros after its last. So the output of a sequence equals, up to rounding, its output
// alone, and padding (even NaN) cannot leak into it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/sequences.h"

namespace hydramix {

class Layout {
 public:
  Layout() = default;
  static Layout padded(const torch::Tensor& mask);        // (B, L) bool, or integers 0 and 1
  static Layout packed(const torch::Tensor& cu_seqlens);  // (sequences + 1) integers: 0, ..., L
  static Layout packed(const Sequences& sequences);       // none of them empty

  bool is_full() const { return kind_ == Kind::kFull; }
  // Throws, naming `who`, unless this layout describes tensors of shape (B, L, ...).
  void check(const std::string& who, int64_t B, int64_t L) const;
  // Length of the longest sequence in tensors of L positions.
  int64_t longest(int64_t L) const { return is_full() ? L : longest_; }

  // Tokens of (B, L, ...) end to end, sequence by sequence: (1, n, ...). If every position holds a
  // token, returns t itself.
  torch::Tensor to_tokens(const torch::Tensor& t) const;
  // The inverse: (B, L, ...), zero at padding.
  torch::Tensor from_tokens(const torch::Tensor& tokens) const;
  // The layout of the tensors that to_tokens() returns.
  Layout token_layout() const;
  // The non-empty sequences of tensors (B, L, ...), as offsets among their tokens.
  Sequences sequences(int64_t B, int64_t L) const;
  // The same layout, fixed to one (B, L), so that its sequences are computed once and not in every
  // layer.
  Layout for_shape(int64_t B, int64_t L) const;

  // Splits the sequences into layouts of the same tensors. The sequences of one part have similar
  // lengths, so that all rows together have less than two positions per token.
  std::vector<Layout> parts() const;

  torch::Tensor to_rows(const torch::Tensor& t) const;  // (B, L, ...) -> (S, L', ...)
  // (S, L', ...) -> (B, L, ...), zero at padding.
  torch::Tensor from_rows(const torch::Tensor& rows) const;
  // The layout of the tensors that to_rows() returns.
  Layout row_layout() const;
  // (S, L') bool: true where a row holds a token; undefined if every position does.
  torch::Tensor valid() const;

 private:
  enum class Kind { kFull, kGathered, kRows };

  // Maps positions of rows to positions among B * L, and back.
  struct Index {
    torch::Tensor valid;      // (S, L') bool
    torch::Tensor place;      // (S * L') int64: source position of each row entry, 0 for padding
    torch::Tensor token;      // (tokens) int64: positions that hold tokens, row by row
    torch::Tensor token_row;  // (tokens) int64: index of each of them among S * L'
  };

  static Layout gathered(int64_t B, int64_t L, const torch::Tensor& begins,
                         const torch::Tensor& lengths);
  // Fills sequences_ and token_ from begins_ and lengths_.
  void place_tokens();
  static std::shared_ptr<const Index> make_index(const torch::Tensor& begins,
                                                 const torch::Tensor& lengths);
  // Whether every position holds a token.
  bool is_dense() const { return is_full() || !token_.defined(); }
  // Recomputed in every call for a layout of several parts; only slow paths use the rows of all
  // parts at once.
  std::shared_ptr<const Index> index() const;

  Kind kind_ = Kind::kFull;
  bool any_shape_ = true;  // the default layout fits tensors of any shape
  // Packed sequences of one length: their rows are a view of the tokens.
  bool equal_lengths_ = false;
  int64_t B_ = 0, L_ = 0, longest_ = 0;
  torch::Tensor begins_, lengths_;      // (S) int64: first position and length of each sequence
  std::optional<Sequences> sequences_;  // empty if any_shape_
  torch::Tensor token_;                 // (n) int64: positions of the tokens; undefined if all
  std::shared_ptr<const Index> index_;  // of a layout with a single part, or of rows
  std::shared_ptr<const std::vector<Layout>> parts_;  // of a layout with several parts
};

}  // namespace hydramix
