// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include "kernels/cpu/scan.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using kernels::ScanChunk;
using kernels::ScanShape;
using torch::Tensor;

// Buffers have a chunk's size, so a chunk is no longer than the longest sequence. That changes no
// result: where it counts, every sequence is a single chunk.
int64_t chunk_length(const std::vector<int64_t>& offsets, int64_t wanted) {
  constexpr int64_t kLongest = 1024;
  int64_t longest = 1;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    longest = std::max(longest, offsets[s + 1] - offsets[s]);
  return std::min({longest, wanted, kLongest});
}

// Everything about a call but its tensors.
struct ChunkPlan {
  ScanShape shape;
  std::vector<ScanChunk> chunks;
  std::vector<int64_t> first{0};  // (sequences + 1): the first chunk of each

  explicit ChunkPlan(const ScanCall& call) {
    const bool on[2] = {call.direction[0].dt.defined(), call.direction[1].dt.defined()};
    const auto& b = call.direction[on[0] ? 0 : 1].b;
    const auto& offsets = call.sequences.offsets();
    const auto& settings = call.settings;
    const int64_t tile = chunk_length(offsets, settings.tile);
    shape = {call.x.size(1), call.x.size(2), b.size(1),       b.size(2),       tile,
             settings.shift, {on[0], on[1]}, settings.dt_low, settings.dt_high};
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      for (int64_t t = offsets[s]; t < offsets[s + 1]; t += tile) {
        const int64_t rows = std::min(tile, offsets[s + 1] - t);
        chunks.push_back({t, rows, t == offsets[s], t + rows == offsets[s + 1]});
      }
      first.push_back(chunk_count());
    }
  }

  int64_t sequences() const { return static_cast<int64_t>(first.size()) - 1; }
  int64_t chunk_count() const { return static_cast<int64_t>(chunks.size()); }
};

// Buffers of a call that a backward pass wants to see again.
struct Workspace {
  Tensor prepared, sums, states_f, states_b;

  template <typename T>
  kernels::ScanWorkspace<T> raw() const {
    const auto data = [](const Tensor& t) { return t.defined() ? t.data_ptr<T>() : nullptr; };
    return {data(prepared), sums.data_ptr<double>(), {data(states_f), data(states_b)}};
  }
};

template <typename S>
struct RawInputs {
  kernels::ScanInputs<S> inputs[2];
  kernels::ScanOperands<S> operands;

  explicit RawInputs(const ScanCall& call) {
    using T = kernels::Arithmetic<S>;
    for (const int d : {0, 1}) {
      const auto& [dt, b, c] = call.direction[d];
      if (!dt.defined()) continue;
      inputs[d] = {dt.data_ptr<T>(), storage<S>(b), storage<S>(c),
                   dt.stride(0),     b.stride(0),   c.stride(0)};
    }
    const bool per_token = call.delta.defined();
    operands = {storage<S>(call.x), call.x.stride(0),
                (per_token ? call.delta : call.diagonal).data_ptr<T>(),
                per_token ? call.delta.stride(0) : 0};
  }
};

template <typename S>
Workspace run_forward(const ScanCall& call, const Tensor& y) {
  using T = kernels::Arithmetic<S>;
  const ChunkPlan plan(call);
  const ScanShape& s = plan.shape;
  const kernels::PreparedPlan prepared(s);
  const int64_t K = plan.chunk_count();
  const auto options = call.A.options();
  Workspace work;
  work.prepared = torch::empty({K, prepared.size()}, options);
  work.sums = torch::empty({K, prepared.sums_size()}, options.dtype(torch::kFloat64));
  // A single chunk has no states: neither do many sequences of one chunk each.
  const bool states = std::any_of(plan.chunks.begin(), plan.chunks.end(),
                                  [](const ScanChunk& chunk) { return !chunk.first; });
  if (states && s.on[1]) work.states_b = torch::empty({K, s.H, s.state()}, options);
  if (states && s.on[0] && call.gradients)
    work.states_f = torch::empty({K, s.H, s.state()}, options);

  const RawInputs<S> raw(call);
  const auto space = work.raw<T>();
  const T *dt_bias = call.dt_bias.data_ptr<T>(), *A = call.A.data_ptr<T>();
  parallel(K, [&](int64_t k) {
    kernels::scan_prepare<S>(s, plan.chunks[static_cast<std::size_t>(k)], raw.inputs, dt_bias, A,
                             space.prepared + k * prepared.size(),
                             space.sums + k * prepared.sums_size());
  });
  parallel(plan.sequences() * s.tasks(), [&](int64_t i) {
    const auto sequence = static_cast<std::size_t>(i / s.tasks());
    const int64_t begin = plan.first[sequence];
    kernels::scan_forward<S>(s, plan.chunks.data(), begin, plan.first[sequence + 1] - begin,
                             i % s.tasks(), raw.operands, space, storage<S>(y), y.stride(0));
  });
  return work;
}

template <typename S>
void run_backward(const ScanCall& call, const Workspace& work, const Tensor& dy,
                  const ScanGradients& g) {
  using T = kernels::Arithmetic<S>;
  const ChunkPlan plan(call);
  const ScanShape& s = plan.shape;
  const kernels::PartialPlan partial_plan(s);
  const int64_t K = plan.chunk_count();
  const auto options = call.A.options();
  const bool per_token = call.delta.defined();
  const auto ddelta = per_token ? g.delta : torch::empty({plan.sequences(), s.H}, options);
  const auto dA = torch::empty({plan.sequences(), s.H}, options.dtype(torch::kFloat64));
  const auto partial = torch::empty({s.tasks_per_group(), K, s.G, partial_plan.size()}, options);
  const auto ddt = torch::empty({K, partial_plan.dt_size()}, options);
  Tensor dstates;
  if (work.states_b.defined()) dstates = torch::empty_like(work.states_b);

  const RawInputs<S> raw(call);
  const auto space = work.raw<T>();
  kernels::ScanGradients<S> gradients[2] = {};
  for (const int d : {0, 1}) {
    const auto& [dt, b, c] = g.direction[d];
    if (!s.on[d]) continue;
    gradients[d] = {dt.data_ptr<T>(), storage<S>(b), storage<S>(c),
                    dt.stride(0),     b.stride(0),   c.stride(0)};
  }
  const kernels::ScanBackward<S> out{
      storage<S>(dy),        dy.stride(0),
      storage<S>(g.x),       g.x.stride(0),
      ddelta.data_ptr<T>(),  dstates.defined() ? dstates.data_ptr<T>() : nullptr,
      partial.data_ptr<T>(), ddt.data_ptr<T>(),
      dA.data_ptr<double>()};
  parallel(plan.sequences() * s.tasks(), [&](int64_t i) {
    const auto sequence = i / s.tasks();
    const int64_t begin = plan.first[static_cast<std::size_t>(sequence)],
                  end = plan.first[static_cast<std::size_t>(sequence) + 1];
    kernels::scan_backward<S>(s, plan.chunks.data(), K, begin, end - begin, sequence, i % s.tasks(),
                              raw.operands, call.A.data_ptr<T>(), space, out);
  });
  parallel(K, [&](int64_t k) {
    kernels::scan_finish<S>(s, plan.chunks.data(), K, k, raw.inputs, call.dt_bias.data_ptr<T>(),
                            space.prepared, out.partial, out.ddt, gradients);
  });
  g.A.copy_(ordered_sum(dA));
  if (!per_token) g.diagonal.copy_(ordered_sum(ddelta));
  Tensor dt_bias;
  for (const auto& direction : g.direction)
    if (direction.dt.defined()) {
      const auto sum = ordered_sum(direction.dt);
      dt_bias = dt_bias.defined() ? dt_bias + sum : sum;
    }
  g.dt_bias.copy_(dt_bias);
}

}  // namespace

std::vector<Tensor> scan_forward(const ScanCall& call, const Tensor& y) {
  const auto work =
      dispatch_storage(call.x, [&](auto tag) { return run_forward<decltype(tag)>(call, y); });
  return {work.prepared, work.sums, work.states_f, work.states_b};
}

void scan_backward(const ScanCall& call, const std::vector<Tensor>& saved, const Tensor& dy,
                   const ScanGradients& gradients) {
  const Workspace work{saved[0], saved[1], saved[2], saved[3]};
  dispatch_storage(call.x,
                   [&](auto tag) { run_backward<decltype(tag)>(call, work, dy, gradients); });
}

}  // namespace hydramix::on_cpu
