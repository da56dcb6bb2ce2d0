// SPDX-License-Identifier: Apache-2.0
// The order of the passes of head_scan.h, and their memory.
#include "kernels/cuda/head_scan.h"

#include "kernels/cuda/head_scan_parts.cuh"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/workspace.h"

namespace hydramix::cuda {
namespace {

bool is_head_width(int64_t width) { return width == 32 || width == 64; }

std::size_t state_values(const DeviceShape& shape, const ScanLayout& layout) {
  return 2 * static_cast<std::size_t>(layout.tiles) * shape.H * shape.P * shape.N;
}

struct HeadSaved {
  Decays decays;
  BFloat16* states = nullptr;
  std::size_t bytes;

  HeadSaved(const DeviceShape& shape, const ScanLayout& layout, void* buffer) {
    Pieces pieces(buffer);
    decays = {pieces.take<float>(4 * static_cast<std::size_t>(shape.H) * layout.n), shape.H,
              layout.n};
    if (layout.states) states = pieces.take<BFloat16>(state_values(shape, layout));
    bytes = pieces.bytes();
  }
};

struct HeadScratch {
  StatePass pass{};
  std::size_t bytes;

  HeadScratch(const DeviceShape& shape, const ScanLayout& layout, bool gradient, void* buffer) {
    Pieces pieces(buffer);
    if (gradient && layout.states) pass.states = pieces.take<BFloat16>(state_values(shape, layout));
    if (layout.carries) {
      const std::size_t walks = 2 * static_cast<std::size_t>(layout.segments()) * shape.H;
      pass.ends = pieces.take<float>(walks * shape.P * shape.N);
      pass.totals = pieces.take<float>(walks);
      pass.before = pieces.take<float>(2 * static_cast<std::size_t>(layout.tiles) * shape.H);
    }
    pass.gradient = gradient;
    bytes = pieces.bytes();
  }
};

heads::Arguments arguments_of(const DeviceShape& shape, const ScanLayout& layout,
                              const Decays& decays, const ScanInputs<BFloat16>& in) {
  return {layout, decays, shape.H, shape.on[0] ? 0 : 1, in.diagonal};
}

}  // namespace

bool head_scan_fits(const ScanShape& s) {
  return s.on[0] != s.on[1] && s.shift == 0 && s.G == s.H && s.H > 0 && is_head_width(s.P) &&
         is_head_width(s.N);
}

std::size_t head_scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout) {
  return HeadSaved(DeviceShape(shape), layout, nullptr).bytes;
}

std::size_t head_scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout) {
  return HeadScratch(DeviceShape(shape), layout, /*gradient=*/false, nullptr).bytes;
}

std::size_t head_scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout) {
  return HeadScratch(DeviceShape(shape), layout, /*gradient=*/true, nullptr).bytes;
}

cudaError_t head_scan_forward(const ScanForward<BFloat16>& call, const ScanLayout& layout,
                              const ScanMemory& memory, bool gradients, cudaStream_t stream,
                              const PassObserver& passed) {
  const auto& in = call.in;
  if (layout.n >= kMostTokens || !head_scan_fits(call.shape) || in.delta.data != nullptr)
    return cudaErrorInvalidValue;
  if (layout.n == 0) return cudaSuccess;
  const DeviceShape shape(call.shape);
  const HeadSaved kept(shape, layout, memory.saved);
  HeadScratch work(shape, layout, /*gradient=*/false, memory.scratch);
  if (const auto e = scan_prepare(shape, layout, in, kept.decays, stream); e != cudaSuccess)
    return e;
  passed("prepare");
  const auto a = arguments_of(shape, layout, kept.decays, in);
  if (layout.states) {
    work.pass.u = in.x;
    work.pass.v[a.d] = in.direction[a.d].b;
    work.pass.states = kept.states;
    work.pass.apart = true;
    if (const auto e = scan_states(shape, layout, kept.decays, work.pass, stream); e != cudaSuccess)
      return e;
    passed("states");
  }
  const auto e = heads::output(a, shape.P, shape.N, in, kept.states,
                               {work.pass.ends, work.pass.before}, gradients, call.y, stream);
  passed("output");
  return e;
}

cudaError_t head_scan_backward(const ScanBackward<BFloat16>& call, const ScanLayout& layout,
                               const ScanMemory& memory, cudaStream_t stream,
                               const PassObserver& passed) {
  const auto& in = call.in;
  const auto& out = call.out;
  if (layout.n >= kMostTokens || !head_scan_fits(call.shape) || in.delta.data != nullptr)
    return cudaErrorInvalidValue;
  if (layout.n == 0) return cudaSuccess;
  const DeviceShape shape(call.shape);
  const HeadSaved kept(shape, layout, memory.saved);
  HeadScratch work(shape, layout, /*gradient=*/true, memory.scratch);
  const auto a = arguments_of(shape, layout, kept.decays, in);
  if (layout.states) {
    work.pass.u = call.dy;
    work.pass.v[a.d] = in.direction[a.d].c;
    if (const auto e = scan_states(shape, layout, kept.decays, work.pass, stream); e != cudaSuccess)
      return e;
    passed("gradient states");
  }
  const auto e =
      heads::gradient(a, shape.P, shape.N, in, call.dy, kept.states, work.pass.states, out, stream);
  passed("gradient");
  return e;
}

}  // namespace hydramix::cuda
