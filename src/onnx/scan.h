// SPDX-License-Identifier: Apache-2.0
// The scan of ops/semiseparable.h as products of matrices, without ONNX's Loop, which runtimes
// execute node by node. A sequence of L' positions is cut into K = J S chunks of T positions; T and
// S are at most 64, so the cost is linear in the length up to 262,144 tokens and nearly so beyond.
//
//   within a chunk   y_i += sum_{j <= i} (c_i . b_j) exp(l_{j+1} + ... + l_i) dt_j x_j
//   its own state    Z_k  = sum_j exp(l_{j+1} + ... + l_last) dt_j b_j x_j^T
//   state before it  h_k  = sum_{m < k} exp(g_{m+1} + ... + g_{k-1}) Z_m,  g: sums of l over a
//   chunk from before      y_i += exp(l_first + ... + l_i) c_i . h_k
//
// with l = A dt <= 0. States pass between the S chunks of a group by the third line, and between
// the J groups by the same line once more. Every exponent is a sum of its own terms, none of them
// positive: nothing overflows, whatever dt is, and a huge dt does not absorb the small ones after
// it, as it would in a difference of prefix sums.
//
// dt = 0 at padding keeps the state there, so that it passes over padding unchanged. The backward
// scan is the same with the sums in reverse: no tensor is flipped.
#pragma once

#include "onnx/graph.h"

namespace hydramix::onnx {

// How the positions of a batch are cut, as (1) int64 values of the graph, with the triangles of
// each size. One tiling serves all layers.
class Tiling {
 public:
  // length: (1) int64, L.
  Tiling(Graph& graph, const Value& length);

  // Sizes of one level: T positions of a chunk, S chunks of a group, J groups.
  struct Level {
    Value size;                            // (1) int64
    Value lower, upper;                    // (size, size) float: i >= j, i <= j
    Value strictly_lower, strictly_upper;  // i > j, i < j
  };
  const Level& places() const { return places_; }
  const Level& chunks() const { return chunks_; }
  const Level& groups() const { return groups_; }
  const Value& chunk_count() const { return chunk_count_; }      // K = J S
  const Value& padded_length() const { return padded_length_; }  // L' = K T < L + K

 private:
  Level places_, chunks_, groups_;
  Value chunk_count_, padded_length_;
};

struct ScanShape {
  int64_t G, R, P, N;  // groups of b and c, heads of a group, channels of a head, state size
};

// All in chunks: (B, G, R or 1, K, T, ...).
struct ScanInput {
  Value x;             // (B, G, R, K, T, P), times dt
  Value l;             // (B, G, R, K, T): A dt
  Value b, c;          // (B, G, 1, K, T, N)
  Value initial = {};  // (G, R, 1, N P): the state before the first position; none: zero
};

// y (B, G, R, K, T, P). `reverse`: each position reads those after it, in place of those before it.
Value scan(const ScanInput& input, const ScanShape& shape, const Tiling& tiling, bool reverse);

// x (B, L', a b c) with the three sizes `parts` -> (B, a, b, K, T, c)
Value in_chunks(const Value& x, const Ints& parts, const Tiling& tiling);

}  // namespace hydramix::onnx
