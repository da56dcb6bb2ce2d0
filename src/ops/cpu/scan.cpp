// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include "kernels/cpu/scan.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/scan_retention.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using kernels::ChunkShape;
using kernels::ScanChunk;
using torch::Tensor;

// Buffers have the size of a chunk, so a chunk is no longer than the longest sequence. This limit
// changes no result: if it applies, every sequence is a single chunk.
int64_t chunk_length(const std::vector<int64_t>& offsets, int64_t wanted) {
  constexpr int64_t kLongest = 1024;
  int64_t longest = 1;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    longest = std::max(longest, offsets[s + 1] - offsets[s]);
  return std::min({longest, wanted, kLongest});
}

// How a call is cut into chunks.
struct ChunkPlan {
  ChunkShape shape;
  std::vector<ScanChunk> chunks;
  std::vector<int64_t> first{0};  // (sequences + 1): the first chunk of each

  explicit ChunkPlan(const ScanCall& call) {
    const bool on[2] = {call.direction[0].dt.defined(), call.direction[1].dt.defined()};
    const auto& b = call.direction[on[0] ? 0 : 1].b;
    const auto& offsets = call.sequences.offsets();
    const auto& settings = call.settings;
    const int64_t tile = chunk_length(offsets, settings.tile);
    shape = {{.H = call.x.size(1),
              .P = call.x.size(2),
              .G = b.size(1),
              .N = b.size(2),
              .shift = settings.shift,
              .on = {on[0], on[1]},
              .dt_low = settings.dt_low,
              .dt_high = settings.dt_high},
             tile};
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

// Results of the forward pass that the backward pass reads.
struct SavedByScan {
  Tensor prepared, sums, states_f, states_b;
};

template <typename T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data_ptr<T>() : nullptr;
}

template <typename T>
kernels::ScanWorkspace<T> workspace_of(const ChunkPlan& plan, const SavedByScan& saved) {
  kernels::ScanWorkspace<T> work{.shape = plan.shape};
  work.chunks = plan.chunks.data();
  work.chunk_count = plan.chunk_count();
  work.first_chunk = plan.first.data();
  work.prepared = saved.prepared.data_ptr<T>();
  work.sums = saved.sums.data_ptr<double>();
  work.states[0] = data_or_null<T>(saved.states_f);
  work.states[1] = data_or_null<T>(saved.states_b);
  return work;
}

template <typename S>
kernels::ScanInputs<S> inputs_of(const ScanCall& call) {
  using T = kernels::Arithmetic<S>;
  kernels::ScanInputs<S> in;
  in.x = rows_of<const S>(call.x);
  for (const int d : {0, 1}) {
    const auto& [dt, b, c] = call.direction[d];
    in.direction[d] = {rows_of<const T>(dt), rows_of<const S>(b), rows_of<const S>(c)};
  }
  in.dt_bias = call.dt_bias.data_ptr<T>();
  in.A = call.A.data_ptr<T>();
  in.diagonal = data_or_null<T>(call.diagonal);
  in.delta = rows_of<const T>(call.delta);
  return in;
}

template <typename S>
SavedByScan run_forward(const ScanCall& call, const Tensor& y) {
  using T = kernels::Arithmetic<S>;
  const ChunkPlan plan(call);
  const ChunkShape& s = plan.shape;
  const kernels::PreparedPlan prepared(s);
  const int64_t K = plan.chunk_count();
  const auto options = call.A.options();
  SavedByScan saved;
  saved.prepared = torch::empty({K, prepared.size()}, options);
  saved.sums = torch::empty({K, prepared.sums_size()}, options.dtype(torch::kFloat64));
  // There are states only if some sequence has several chunks.
  const bool states = std::any_of(plan.chunks.begin(), plan.chunks.end(),
                                  [](const ScanChunk& chunk) { return !chunk.first; });
  if (states && s.on[1]) saved.states_b = torch::empty({K, s.H, s.state()}, options);
  if (states && s.on[0] && call.gradients)
    saved.states_f = torch::empty({K, s.H, s.state()}, options);

  const kernels::ScanForward<S> p{s, inputs_of<S>(call), rows_of<S>(y)};
  const auto work = workspace_of<T>(plan, saved);
  parallel(K, [&](int64_t k) { kernels::scan_prepare<S>(p, work, k); });
  parallel(plan.sequences() * s.tasks(),
           [&](int64_t i) { kernels::scan_forward<S>(p, work, i / s.tasks(), i % s.tasks()); });
  return saved;
}

template <typename S>
void run_backward(const ScanCall& call, const SavedByScan& saved, const Tensor& dy,
                  const ScanGradients& g) {
  using T = kernels::Arithmetic<S>;
  const ChunkPlan plan(call);
  const ChunkShape& s = plan.shape;
  const kernels::PartialPlan partial_plan(s);
  const int64_t K = plan.chunk_count();
  const auto options = call.A.options();
  const bool per_token = call.delta.defined();
  const auto ddiagonal = per_token ? Tensor() : torch::empty({plan.sequences(), s.H}, options);
  const auto dA = torch::empty({plan.sequences(), s.H}, options.dtype(torch::kFloat64));
  Tensor partial;
  if (!s.own_groups())
    partial = torch::empty({s.tasks_per_group(), K, s.G, partial_plan.size()}, options);
  const auto ddt = torch::empty({K, partial_plan.dt_size()}, options);
  Tensor dstates;
  if (saved.states_b.defined()) dstates = torch::empty_like(saved.states_b);

  kernels::ScanBackward<S> p{.shape = s, .in = inputs_of<S>(call), .dy = rows_of<const S>(dy)};
  p.out.x = rows_of<S>(g.x);
  for (const int d : {0, 1}) {
    const auto& [dt, b, c] = g.direction[d];
    p.out.direction[d] = {rows_of<T>(dt), rows_of<S>(b), rows_of<S>(c)};
  }
  if (per_token) p.out.delta = rows_of<T>(g.delta);
  auto work = workspace_of<T>(plan, saved);
  work.dstates = data_or_null<T>(dstates);
  work.partial = data_or_null<T>(partial);
  work.ddt = ddt.data_ptr<T>();
  work.dA = dA.data_ptr<double>();
  work.ddiagonal = data_or_null<T>(ddiagonal);
  parallel(plan.sequences() * s.tasks(),
           [&](int64_t i) { kernels::scan_backward<S>(p, work, i / s.tasks(), i % s.tasks()); });
  parallel(K, [&](int64_t k) { kernels::scan_finish<S>(p, work, k); });
  g.A.copy_(ordered_sum(dA));
  if (!per_token) g.diagonal.copy_(ordered_sum(ddiagonal));
  Tensor dt_bias;
  for (const auto& direction : g.direction)
    if (direction.dt.defined()) {
      const auto sum = ordered_sum(direction.dt);
      dt_bias = dt_bias.defined() ? dt_bias + sum : sum;
    }
  g.dt_bias.copy_(dt_bias);
}

// The kernel computes all gradients; those that are not requested go to scratch memory.
ScanGradients with_all(const ScanCall& call, ScanGradients g) {
  const auto fill = [](Tensor& gradient, const Tensor& of) {
    if (!gradient.defined() && of.defined()) gradient = torch::empty(of.sizes(), of.options());
  };
  for (const int d : {0, 1}) fill(g.direction[d].dt, call.direction[d].dt);
  fill(g.dt_bias, call.dt_bias), fill(g.A, call.A);
  fill(g.diagonal, call.diagonal), fill(g.delta, call.delta);
  return g;
}

}  // namespace

std::vector<Tensor> scan_forward(const ScanCall& call, const Tensor& y) {
  if (is_retention(call)) return {retention_forward(call, y)};
  const auto saved =
      dispatch_storage(call.x, [&](auto tag) { return run_forward<decltype(tag)>(call, y); });
  return {saved.prepared, saved.sums, saved.states_f, saved.states_b};
}

void scan_backward(const ScanCall& call, const std::vector<Tensor>& saved, const Tensor& dy,
                   const ScanGradients& gradients) {
  if (is_retention(call)) return retention_backward(call, saved[0], dy, gradients);
  const SavedByScan kept{saved[0], saved[1], saved[2], saved[3]};
  const auto all = with_all(call, gradients);
  dispatch_storage(call.x, [&](auto tag) { run_backward<decltype(tag)>(call, kept, dy, all); });
}

}  // namespace hydramix::on_cpu
