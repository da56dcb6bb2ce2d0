// SPDX-License-Identifier: Apache-2.0
// Greedy longest-match splitting of a word into pieces in one pass over its bytes, after Song et
// al., "Fast WordPiece Tokenization" (2021). Two tries: of the tokens, and of the continuing
// pieces. A node has the pieces to emit when no byte matches (pops), and the node to continue at
// (fail), so no byte is read twice. The tries lie in a double array: child(u, b) = base[u] + b, if
// check[base[u] + b] = u.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

class PieceTrie {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kStart = 0;

  // Token k has id k; empty tokens and those longer than `longest` bytes never match.
  PieceTrie(std::span<const std::string> tokens, std::string_view prefix, std::size_t longest);

  // The node after one more byte of the word, which begins at kStart. Appends the ids of pieces
  // that became final; returns kNone when the word cannot be split.
  int32_t step(int32_t node, unsigned char byte, std::vector<int32_t>& ids) const {
    for (;;) {
      const int32_t child = links_[static_cast<std::size_t>(node)].base + byte;
      if (links_[static_cast<std::size_t>(child)].check == node) return child;
      node = pop(node, ids);
      if (node == kNone) return kNone;
    }
  }
  // Appends the pieces that remain at the end of a word. False when it cannot be split.
  bool finish(int32_t node, std::vector<int32_t>& ids) const {
    while (node != continued_) {
      node = pop(node, ids);
      if (node == kNone) return false;
    }
    return true;
  }

 private:
  struct Link {
    int32_t base, check;
  };
  struct Failure {
    int32_t node = kNone, pops_begin = 0, pops_end = 0;
  };
  class Builder;

  int32_t pop(int32_t node, std::vector<int32_t>& ids) const {
    const Failure& failure = failures_[static_cast<std::size_t>(node)];
    if (failure.node == kNone) return kNone;
    ids.insert(ids.end(), pops_.begin() + failure.pops_begin, pops_.begin() + failure.pops_end);
    return failure.node;
  }

  std::vector<Link> links_;
  std::vector<Failure> failures_;
  std::vector<int32_t> pops_;
  int32_t continued_ = kNone;  // the root of the continuing pieces
};

}  // namespace hydramix
