// SPDX-License-Identifier: Apache-2.0
// The order of the scan's passes, and their memory.
#include <algorithm>
#include <atomic>
#include <climits>

#include "kernels/cuda/limits.h"
#include "kernels/cuda/reference_gpu.h"
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/workspace.h"

namespace hydramix::cuda {
namespace {

struct Saved {
  Decays decays;
  BFloat16* states = nullptr;
  std::size_t bytes;

  Saved(const DeviceShape& shape, const ScanLayout& layout, void* buffer) {
    const Parts parts(shape);
    Pieces pieces(buffer);
    decays = {pieces.take<float>(4 * static_cast<std::size_t>(shape.H) * layout.n), shape.H,
              layout.n};
    if (layout.states)
      states = pieces.take<BFloat16>(2 * static_cast<std::size_t>(layout.tiles) * parts.count *
                                     parts.state());
    bytes = pieces.bytes();
  }
};

// Memory of a pass over states, if sequences are longer than a segment.
void take_carries(const DeviceShape& shape, const ScanLayout& layout, Pieces& pieces,
                  StatePass& pass) {
  if (!layout.carries) return;
  const Parts parts(shape);
  const std::size_t walks = 2 * static_cast<std::size_t>(layout.segments()) * parts.count;
  pass.ends = pieces.take<float>(walks * parts.state());
  pass.totals = pieces.take<float>(walks);
  pass.before = pieces.take<float>(2 * static_cast<std::size_t>(layout.tiles) * parts.count);
}

struct Scratch {
  StatePass pass{};  // of the gradients of states
  Gathered gathered{};
  float* sums;
  std::size_t bytes;

  Scratch(const DeviceShape& shape, const ScanLayout& layout, void* buffer) {
    const Parts parts(shape);
    const auto tiles = static_cast<std::size_t>(layout.tiles);
    const auto n = static_cast<std::size_t>(layout.n);
    Pieces pieces(buffer);
    gathered.runs = tile_gradient_runs(shape, layout);
    gathered.places = pieces.take<float>((layout.states ? 9 : 5) * parts.count * n);
    gathered.shares =
        pieces.take<float>((gathered.runs + (layout.states ? 1 : 0)) * n * shape.G * 4 * shape.N);
    sums = pieces.take<float>(5 * tiles * shape.H);
    if (layout.states) {
      gathered.dots = pieces.take<float>(2 * tiles * parts.count);
      pass.states = pieces.take<BFloat16>(2 * tiles * parts.count * parts.state());
      take_carries(shape, layout, pieces, pass);
    }
    bytes = pieces.bytes();
  }
};

}  // namespace

// An attribute of the current device, queried once per device; `otherwise` without a device.
static int attribute(cudaDeviceAttr what, std::atomic<int> (&known)[64], int otherwise) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 64) return otherwise;
  if (known[device] == 0) {
    if (cudaDeviceGetAttribute(&value, what, device) != cudaSuccess) return otherwise;
    known[device] = value;
  }
  return known[device];
}

int multiprocessors() {
  static std::atomic<int> known[64];
  return attribute(cudaDevAttrMultiProcessorCount, known, kReferenceProcessors);
}

static std::atomic<int> shared_memory_limit = INT_MAX;
void limit_shared_memory(int bytes) { shared_memory_limit = bytes; }

static int shared_memory() {
  static std::atomic<int> known[64];
  return std::min<int>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, known, 0),
                       shared_memory_limit);
}

bool scan_fits(const ScanShape& shape, bool gradients, int shared_bytes) {
  const DeviceShape s(shape);
  const bool states = s.N == 16 || s.N == 32 || s.N == 64 || s.N == 128;
  // Without a shift both directions have a diagonal, and one matrix cannot hold two.
  if (s.P % 32 != 0 || s.P <= 0 || !states || s.G <= 0 || s.H % s.G != 0 ||
      (s.shift == 0 && s.on[0] && s.on[1]))
    return false;
  const Parts parts(s);
  if (std::max(states_shared(parts), output_shared(parts)) > shared_bytes) return false;
  return !gradients ||
         std::max(tile_gradient_shared(parts), state_gradient_shared(parts)) <= shared_bytes;
}

bool scan_fits(const ScanShape& shape, bool gradients) {
  return scan_fits(shape, gradients, shared_memory());
}

std::size_t scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout) {
  return Saved(DeviceShape(shape), layout, nullptr).bytes;
}

std::size_t scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout) {
  Pieces pieces(nullptr);
  StatePass pass{};
  take_carries(DeviceShape(shape), layout, pieces, pass);
  return pieces.bytes();
}

std::size_t scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout) {
  return Scratch(DeviceShape(shape), layout, nullptr).bytes;
}

cudaError_t scan_forward(const ScanForward<BFloat16>& call, const ScanLayout& layout,
                         const ScanMemory& memory, cudaStream_t stream,
                         const PassObserver& passed) {
  if (layout.n >= kMostTokens) return cudaErrorInvalidValue;
  if (layout.n == 0) return cudaSuccess;
  const DeviceShape shape(call.shape);
  const auto& in = call.in;
  const Saved kept(shape, layout, memory.saved);
  if (const auto e = scan_prepare(shape, layout, in, kept.decays, stream); e != cudaSuccess)
    return e;
  passed("prepare");
  if (layout.states) {
    Pieces pieces(memory.scratch);
    StatePass pass{};
    pass.u = in.x;
    for (const int d : {0, 1}) pass.v[d] = in.direction[d].b;
    pass.states = kept.states;
    take_carries(shape, layout, pieces, pass);
    if (const auto e = scan_states(shape, layout, kept.decays, pass, stream); e != cudaSuccess)
      return e;
    passed("states");
  }
  const auto e = scan_output(shape, layout, in, kept.decays, kept.states, call.y, stream);
  passed("output");
  return e;
}

cudaError_t scan_backward(const ScanBackward<BFloat16>& call, const ScanLayout& layout,
                          const ScanMemory& memory, cudaStream_t stream,
                          const PassObserver& passed) {
  const DeviceShape shape(call.shape);
  const auto& in = call.in;
  const auto& dy = call.dy;
  const auto& out = call.out;
  if (layout.n >= kMostTokens) return cudaErrorInvalidValue;
  if (layout.n == 0) return zero({out.dt_bias, out.A, out.diagonal}, shape.H, stream);
  const Saved kept(shape, layout, memory.saved);
  Scratch work(shape, layout, memory.scratch);
  if (layout.states) {
    work.pass.gradient = true;
    work.pass.u = dy;
    for (const int d : {0, 1}) work.pass.v[d] = in.direction[d].c;
    if (const auto e = scan_states(shape, layout, kept.decays, work.pass, stream); e != cudaSuccess)
      return e;
    passed("gradient states");
  }
  if (const auto e = scan_tile_gradient(shape, layout, in, kept.decays, dy, work.pass.states,
                                        work.gathered, out.x, stream);
      e != cudaSuccess)
    return e;
  passed("tile gradient");
  if (layout.states) {
    if (const auto e = scan_state_gradient(shape, layout, in, kept.decays, dy, kept.states,
                                           work.pass.states, work.gathered, stream);
        e != cudaSuccess)
      return e;
    passed("state gradient");
  }
  if (const auto e = scan_shares(shape, layout, work.gathered, out, stream); e != cudaSuccess)
    return e;
  passed("shares");
  const auto e = scan_finish(shape, layout, in, kept.decays, work.gathered, work.sums, out, stream);
  passed("finish");
  return e;
}

}  // namespace hydramix::cuda
