// SPDX-License-Identifier: Apache-2.0
// The order of the plain scan's passes, and their memory.
//
// Work, in multiplications per token and head, for both directions: forward kTile P for the matrix
// and 4 P N for states, backward twice as many. 16384 tokens of 24 heads of 64 x 64 are 10 G
// forward and 19 G backward. An H200 does at most 33 G per millisecond, which gives the floor.
#include "kernels/cuda/limits.h"
#include "kernels/cuda/plain_scan_parts.cuh"
#include "kernels/cuda/workspace.h"

namespace hydramix::cuda {
namespace {

struct Saved {
  plain::Steps steps;
  float* states = nullptr;
  std::size_t bytes;

  Saved(const DeviceShape& shape, const ScanLayout& layout, void* buffer) {
    const auto H = static_cast<std::size_t>(shape.H), n = static_cast<std::size_t>(layout.n);
    const auto tiles = static_cast<std::size_t>(layout.tiles);
    Pieces pieces(buffer);
    steps.sums = pieces.take<double>(2 * H * n);
    steps.dts = pieces.take<float>(2 * H * n);
    steps.tile_decays = pieces.take<double>(2 * tiles * H);
    steps.H = shape.H;
    steps.tiles = layout.tiles;
    steps.n = layout.n;
    if (layout.states) states = pieces.take<float>(2 * tiles * H * shape.P * shape.N);
    bytes = pieces.bytes();
  }
};

plain::Products take_products(const DeviceShape& shape, const ScanLayout& layout, Pieces& pieces) {
  const auto G = static_cast<std::size_t>(shape.G);
  plain::Products products{};
  products.matrices =
      pieces.take<float>(static_cast<std::size_t>(layout.tiles) * G * plain::kSquare);
  if (shape.shift == 0)
    products.diagonal = pieces.take<float>(2 * G * static_cast<std::size_t>(layout.n));
  return products;
}

struct Scratch {
  plain::Products products;
  plain::Gathered gathered{};
  float* dstates = nullptr;
  double* totals;
  std::size_t bytes;

  Scratch(const DeviceShape& shape, const ScanLayout& layout, void* buffer) {
    const auto H = static_cast<std::size_t>(shape.H), n = static_cast<std::size_t>(layout.n);
    const auto tiles = static_cast<std::size_t>(layout.tiles);
    Pieces pieces(buffer);
    products = take_products(shape, layout, pieces);
    gathered.runs = plain::gradient_runs(shape, layout);
    gathered.reaches = pieces.take<double>(2 * plain::kBlocks * H * n);
    gathered.entries = pieces.take<double>(2 * plain::kBlocks * H * n);
    gathered.neighbours = pieces.take<float>(2 * H * n);
    gathered.diagonal = pieces.take<float>(H * n);
    gathered.matrices = pieces.take<float>(gathered.runs * tiles * shape.G * plain::kSquare);
    totals = pieces.take<double>(3 * tiles * H);
    if (layout.states) {
      gathered.dots = pieces.take<float>(4 * plain::chunks(shape.N) * H * n);
      gathered.tile_decays = pieces.take<double>(2 * tiles * H);
      dstates = pieces.take<float>(2 * tiles * H * shape.P * shape.N);
    }
    bytes = pieces.bytes();
  }
};

// Runs passes until one fails.
template <typename... Passes>
cudaError_t in_order(const Passes&... passes) {
  cudaError_t error = cudaSuccess;
  (void)((error = passes(), error == cudaSuccess) && ...);
  return error;
}

}  // namespace

std::size_t plain_scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout) {
  return Saved(DeviceShape(shape), layout, nullptr).bytes;
}

std::size_t plain_scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout) {
  Pieces pieces(nullptr);
  take_products(DeviceShape(shape), layout, pieces);
  return pieces.bytes();
}

std::size_t plain_scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout) {
  return Scratch(DeviceShape(shape), layout, nullptr).bytes;
}

template <typename S>
cudaError_t plain_scan_forward(const ScanForward<S>& call, const ScanLayout& layout,
                               const ScanMemory& memory, cudaStream_t stream) {
  if (layout.n >= kMostTokens) return cudaErrorInvalidValue;
  if (layout.n == 0) return cudaSuccess;
  const DeviceShape shape(call.shape);
  const auto& x = call.in.x;
  const Saved kept(shape, layout, memory.saved);
  Pieces pieces(memory.scratch);
  const plain::Problem<S> p{shape, layout, call.in, kept.steps,
                            take_products(shape, layout, pieces)};
  return in_order([&] { return plain::prepare(p, stream); },
                  [&] { return plain::multiply_rows(p, stream); },
                  [&] { return plain::make_states(p, false, x, kept.states, stream); },
                  [&] { return plain::apply(p, false, x, kept.states, call.y, stream); });
}

template <typename S>
cudaError_t plain_scan_backward(const ScanBackward<S>& call, const ScanLayout& layout,
                                const ScanMemory& memory, cudaStream_t stream) {
  const auto& out = call.out;
  const DeviceShape shape(call.shape);
  if (layout.n >= kMostTokens) return cudaErrorInvalidValue;
  if (layout.n == 0) return zero({out.dt_bias, out.A, out.diagonal}, shape.H, stream);
  const Saved kept(shape, layout, memory.saved);
  const Scratch work(shape, layout, memory.scratch);
  const plain::Problem<S> p{shape, layout, call.in, kept.steps, work.products};
  const auto& dy = call.dy;
  return in_order([&] { return plain::multiply_rows(p, stream); },
                  [&] { return plain::make_states(p, true, dy, work.dstates, stream); },
                  [&] {
                    if (out.x.data == nullptr) return cudaSuccess;
                    return plain::apply(p, true, dy, work.dstates, out.x, stream);
                  },
                  [&] { return plain::matrix_gradient(p, dy, work.gathered, stream); },
                  [&] {
                    return plain::row_gradient(p, dy, kept.states, work.dstates, work.gathered, out,
                                               stream);
                  },
                  [&] { return plain::finish(p, work.gathered, work.totals, out, stream); });
}

#define HYDRAMIX_PLAIN_SCAN(S)                                                        \
  template cudaError_t plain_scan_forward(const ScanForward<S>&, const ScanLayout&,   \
                                          const ScanMemory&, cudaStream_t);           \
  template cudaError_t plain_scan_backward(const ScanBackward<S>&, const ScanLayout&, \
                                           const ScanMemory&, cudaStream_t);
HYDRAMIX_PLAIN_SCAN(float)
HYDRAMIX_PLAIN_SCAN(BFloat16)
#undef HYDRAMIX_PLAIN_SCAN

}  // namespace hydramix::cuda
