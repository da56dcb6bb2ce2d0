// SPDX-License-Identifier: Apache-2.0
// Shared by the scan for tensor cores and the plain one: where tiles and sequences are, and values
// of either storage type.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/scan.h"

namespace hydramix::cuda {

// ScanShape in the types that kernels compute with.
struct DeviceShape {
  int H, P, G, N, shift;
  bool on[2];
  float dt_low, dt_high;

  explicit DeviceShape(const ScanShape& s)
      : H(static_cast<int>(s.H)),
        P(static_cast<int>(s.P)),
        G(static_cast<int>(s.G)),
        N(static_cast<int>(s.N)),
        shift(static_cast<int>(s.shift)),
        on{s.on[0], s.on[1]},
        dt_low(static_cast<float>(s.dt_low)),
        dt_high(static_cast<float>(s.dt_high)) {}
};

struct Span {
  int begin, rows;
};
__device__ __forceinline__ Span tile_span(const ScanLayout& layout, int tile) {
  const int begin = layout.begins[tile];
  return {begin, layout.begins[tile + 1] - begin};
}

// The token at the border of a tile where direction d leaves it.
__device__ __forceinline__ int far_token(int d, const Span& s) {
  return d == 0 ? s.begin + s.rows - 1 : s.begin;
}

// Rows [low, high) of a tile.
struct Window {
  int low, high;
  __device__ __forceinline__ bool has(int r) const { return r >= low && r < high; }
};

// The rows of the sequence that continues across the border where direction d leaves the tile (none
// if no sequence does), and whether it also crosses the other border. `bounds` are those of
// far_token.
struct Crossing {
  Window rows;
  bool passes;
};
__device__ __forceinline__ Crossing crossing(int d, const Span& s, int2 bounds) {
  const bool before = bounds.x < s.begin;
  const bool after = s.begin + s.rows < bounds.y;
  if (!(d == 0 ? after : before)) return {{0, 0}, false};
  return {{max(bounds.x - s.begin, 0), min(bounds.y - s.begin, s.rows)}, before && after};
}
__device__ __forceinline__ Crossing crossing(const ScanLayout& layout, int d, const Span& s) {
  return crossing(d, s, layout.bounds[far_token(d, s)]);
}

// The token at position q in the order of direction d.
__device__ __forceinline__ int token(int d, const Span& s, int q) {
  return d == 0 ? s.begin + q : s.begin + s.rows - 1 - q;
}

// Whether direction d starts a sequence at token t.
__device__ __forceinline__ bool starts(const ScanLayout& layout, int d, int t) {
  const int2 bounds = layout.bounds[t];
  return d == 0 ? bounds.x == t : bounds.y == t + 1;
}

__device__ __forceinline__ float load_any(const void* from, int64_t at, bool is_float) {
  return is_float ? static_cast<const float*>(from)[at]
                  : widen(static_cast<const BFloat16*>(from)[at]);
}
__device__ __forceinline__ void store_any(void* to, int64_t at, bool is_float, float v) {
  if (is_float)
    static_cast<float*>(to)[at] = v;
  else
    static_cast<BFloat16*>(to)[at] = narrow<BFloat16>(v);
}

}  // namespace hydramix::cuda
