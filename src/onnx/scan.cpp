// SPDX-License-Identifier: Apache-2.0
#include "onnx/scan.h"

namespace hydramix::onnx {
namespace {

constexpr int64_t kLargestTile = 64;

// ceil(a / b) for positive a, b (1) int64
Value ceil_div(const Value& a, const Value& b) { return (a + b - a.graph->ints({1})) / b; }

Tiling::Level level_of(const Value& size) {
  Graph& g = *size.graph;
  const auto end = g.node("Squeeze", {size});
  const auto index = g.node("Range", {g.integer(0), end, g.integer(1)});
  const auto row = unsqueeze(index, {1}), column = unsqueeze(index, {0});
  const auto where = [&](const char* comparison) {
    return as_float(g.node(comparison, {row, column}));
  };
  return {size, where("GreaterOrEqual"), where("LessOrEqual"), where("Greater"), where("Less")};
}

// l (..., n) -> (..., n, n), sums of l over ranges of positions. Entry (i, j) is
//
//   sum_{j < m <= i} l_m  for i >= j;  `exclusive`: m < i
//   sum_{i <= m < j} l_m  for i <= j  in reverse;  `exclusive`: i < m
//
// and 0 elsewhere.
Value range_sums(const Value& l, const Tiling::Level& level, bool reverse, bool exclusive) {
  const auto terms = unsqueeze(l, {-1}) * (reverse ? level.strictly_upper : level.strictly_lower);
  return cumulative(terms, {.reverse = reverse, .exclusive = exclusive, .axis = -2});
}

// The decay of each position of the last axis from itself to the end of the scan.
Value decay_to_end(const Value& l, bool reverse) {
  return exp(cumulative(l, {.reverse = !reverse, .exclusive = true}));
}

// The states before each of the n parts, from their own states z (..., n, C) and decays l (..., n).
Value states_before(const Value& z, const Value& l, const Tiling::Level& level, bool reverse) {
  const auto decay = exp(range_sums(l, level, reverse, /*exclusive=*/true));
  return matmul(decay * (reverse ? level.strictly_upper : level.strictly_lower), z);
}

}  // namespace

// Parts of equal size: 65 positions are two chunks of 33, of which one position is padding. A
// length of zero counts as one position of padding, because some runtimes crash on a division by
// zero.
Tiling::Tiling(Graph& g, const Value& given) {
  const auto length = g.node("Max", {given, g.ints({1})});
  const auto groups = ceil_div(length, g.ints({kLargestTile * kLargestTile}));
  const auto chunks = ceil_div(length, groups * g.ints({kLargestTile}));
  chunk_count_ = groups * chunks;
  const auto places = ceil_div(length, chunk_count_);
  padded_length_ = chunk_count_ * places;
  places_ = level_of(places);
  chunks_ = level_of(chunks);
  groups_ = level_of(groups);
}

Value in_chunks(const Value& x, const Ints& parts, const Tiling& tiling) {
  Graph& g = *x.graph;
  const auto shape =
      joined({g.ints({0}), tiling.chunk_count(), tiling.places().size, g.ints(parts)});
  return transpose(reshape(x, shape), {0, 3, 4, 1, 2, 5});
}

Value scan(const ScanInput& in, const ScanShape& shape, const Tiling& tiling, bool reverse) {
  Graph& g = *in.x.graph;
  const auto& places = tiling.places();

  // Within chunks. Of (c_i . b_j), heads of a group share one product, which takes the triangle.
  const auto decay = exp(range_sums(in.l, places, reverse, /*exclusive=*/false));
  const auto cb =
      matmul(in.c, transpose(in.b, {0, 1, 2, 3, 5, 4})) * (reverse ? places.upper : places.lower);
  const auto within = matmul(decay * cb, in.x);

  // The chunks' own states, (B, G, R, J, S, N P).
  const auto weighted = in.x * unsqueeze(decay_to_end(in.l, reverse), {-1});
  const auto own = matmul(transpose(in.b, {0, 1, 2, 3, 5, 4}), weighted);  // (.., K, N, P)
  const auto& J = tiling.groups().size;
  const auto& S = tiling.chunks().size;
  const auto z = reshape(own, joined({g.ints({0, 0, 0}), J, S, g.ints({shape.N * shape.P})}));
  const auto l_chunks = reshape(sum(in.l, -1), joined({g.ints({0, 0, 0}), J, S}));
  const auto l_groups = sum(l_chunks, -1);

  // The groups' states, and those before each of them, (B, G, R, J, N P).
  const auto to_end = unsqueeze(decay_to_end(l_chunks, reverse), {-2});  // (.., J, 1, S)
  const auto of_groups = g.node("Squeeze", {matmul(to_end, z), g.ints({-2})});
  const Sums before{.reverse = reverse, .exclusive = true};
  auto carried = states_before(of_groups, l_groups, tiling.groups(), reverse);
  if (in.initial.graph != nullptr)
    carried = carried + unsqueeze(exp(cumulative(l_groups, before)), {-1}) * in.initial;

  // The states before each chunk, (B, G, R, K, N, P).
  const auto decayed =
      unsqueeze(exp(cumulative(l_chunks, before)), {-1}) * unsqueeze(carried, {-2});
  const auto h = states_before(z, l_chunks, tiling.chunks(), reverse) + decayed;
  const auto states =
      reshape(h, joined({g.ints({0, 0, 0}), tiling.chunk_count(), g.ints({shape.N, shape.P})}));
  const auto from_start = unsqueeze(exp(cumulative(in.l, {.reverse = reverse})), {-1});
  return within + matmul(in.c, states) * from_start;
}

}  // namespace hydramix::onnx
