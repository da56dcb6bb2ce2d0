// SPDX-License-Identifier: Apache-2.0
#include "ops/gated_scan.h"

#include "kernels/cpu/gated_scan.h"
#include "ops/cpu/rows.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using torch::Tensor;

// How a call is cut into sequences and chunks.
struct GatedScanChunks {
  kernels::GatedScanShape shape{};
  std::vector<kernels::GatedScanRange> sequences;
  int64_t count = 0;
  bool several = false;  // chunks in some sequence

  explicit GatedScanChunks(const GatedScanCall& call) {
    // A longer chunk only costs more: its matrix grows with the square of the length.
    constexpr int64_t kLongest = 256;
    const auto& offsets = call.sequences.offsets();
    int64_t longest = 1;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
      longest = std::max(longest, offsets[s + 1] - offsets[s]);
    const int64_t tile = std::min({longest, call.tile, kLongest});
    shape.n = call.x.size(0), shape.H = call.x.size(1), shape.P = call.x.size(2);
    shape.N = call.params.q.size(2), shape.tile = tile;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      sequences.push_back({offsets[s], offsets[s + 1], count});
      count += (offsets[s + 1] - offsets[s] + tile - 1) / tile;
    }
    several = longest > tile;
  }

  // Calls f(sequence, head) in parallel.
  template <class F>
  void run(F&& f) const {
    const auto tasks = static_cast<int64_t>(sequences.size()) * shape.H;
    parallel(tasks,
             [&](int64_t i) { f(sequences[static_cast<std::size_t>(i / shape.H)], i % shape.H); });
  }
};

template <typename T>
kernels::GatedScanInputs<T> gated_inputs(const GatedScanCall& call) {
  return {rows_of<const T>(call.params.q), rows_of<const T>(call.params.k),
          rows_of<const T>(call.params.g), rows_of<const T>(call.x)};
}

template <class F>
auto dispatch_gated(const Tensor& t, F&& f) {
  return t.scalar_type() == torch::kFloat64 ? f(double{}) : f(float{});
}

}  // namespace

Tensor gated_scan_forward(const GatedScanCall& call, const Tensor& y, bool gradients) {
  const GatedScanChunks chunks(call);
  const auto& s = chunks.shape;
  Tensor states;
  if (gradients && chunks.several)
    states =
        torch::empty({chunks.count, s.H, kernels::GatedChunkShape(s).state()}, call.x.options());
  dispatch_gated(call.x, [&](auto tag) {
    using T = decltype(tag);
    const kernels::GatedScanForward<T> p{s, gated_inputs<T>(call), rows_of<T>(y),
                                         states.defined() ? states.data_ptr<T>() : nullptr};
    chunks.run([&](const auto& range, int64_t h) { kernels::gated_scan_forward<T>(p, range, h); });
  });
  return states;
}

void gated_scan_backward(const GatedScanCall& call, const Tensor& states, const Tensor& dy,
                         const Tensor& dx, const GatedScanParams& d) {
  const GatedScanChunks chunks(call);
  dispatch_gated(call.x, [&](auto tag) {
    using T = decltype(tag);
    const kernels::GatedScanBackward<T> p{
        .shape = chunks.shape,
        .in = gated_inputs<T>(call),
        .states = states.defined() ? states.data_ptr<T>() : nullptr,
        .dy = rows_of<const T>(dy),
        .dq = rows_of<T>(d.q),
        .dk = rows_of<T>(d.k),
        .dg = rows_of<T>(d.g),
        .dx = rows_of<T>(dx)};
    chunks.run([&](const auto& range, int64_t h) { kernels::gated_scan_backward<T>(p, range, h); });
  });
}

}  // namespace hydramix::on_cpu
