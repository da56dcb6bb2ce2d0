// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/scan_retention.h"

#include <cmath>

#include "kernels/cpu/scan_retention.h"
#include "ops/cpu/rows.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using torch::Tensor;

// How a call is cut into sequences and chunks.
struct RetentionPlan {
  int64_t H, tile;
  std::vector<kernels::RetentionTask> sequences;  // with head 0
  int64_t chunks = 0;
  bool several = false;  // chunks in some sequence

  explicit RetentionPlan(const ScanCall& call) : H(call.x.size(1)) {
    // A longer chunk only costs more: its matrix grows with the square of the length.
    constexpr int64_t kLongest = 256;
    const auto& offsets = call.sequences.offsets();
    int64_t longest = 1;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
      longest = std::max(longest, offsets[s + 1] - offsets[s]);
    tile = std::min({longest, call.settings.tile, kLongest});
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      sequences.push_back({offsets[s], offsets[s + 1], 0, chunks});
      chunks += (offsets[s + 1] - offsets[s] + tile - 1) / tile;
    }
    several = longest > tile;
  }

  // Calls f(task) in parallel.
  template <class F>
  void run(F&& f) const {
    parallel(static_cast<int64_t>(sequences.size()) * H, [&](int64_t i) {
      auto task = sequences[static_cast<std::size_t>(i / H)];
      task.head = i % H;
      f(task);
    });
  }
};

template <typename S>
kernels::RetentionInputs<S> inputs_of(const ScanCall& call, const RetentionPlan& plan) {
  using T = kernels::Arithmetic<S>;
  const auto& [dt, b, c] = call.direction[0];
  return {.H = plan.H,
          .P = call.x.size(2),
          .N = b.size(2),
          .tile = plan.tile,
          .x = rows_of<const S>(call.x),
          .b = rows_of<const S>(b),
          .c = rows_of<const S>(c),
          .A = call.A.data_ptr<T>(),
          .dt = call.settings.dt_low,
          .diagonal = call.diagonal.data_ptr<T>()};
}

}  // namespace

bool is_retention(const ScanCall& call) {
  const auto& settings = call.settings;
  return !call.direction[1].dt.defined() && settings.shift == 0 && call.diagonal.defined() &&
         call.direction[0].b.size(1) == call.x.size(1) && settings.dt_low == settings.dt_high &&
         std::isfinite(settings.dt_low) && !settings.learned_decays &&
         !(call.gradients && call.decay_gradients);
}

Tensor retention_forward(const ScanCall& call, const Tensor& y) {
  const RetentionPlan plan(call);
  Tensor states;
  dispatch_storage(call.x, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const auto in = inputs_of<S>(call, plan);
    if (call.gradients && plan.several)
      states = torch::empty({plan.chunks, plan.H, in.state()}, call.A.options());
    T* to = states.defined() ? states.data_ptr<T>() : nullptr;
    plan.run([&](const auto& task) { kernels::retention_forward<S>(in, task, rows_of<S>(y), to); });
  });
  return states;
}

void retention_backward(const ScanCall& call, const Tensor& states, const Tensor& dy,
                        const ScanGradients& gradients) {
  const RetentionPlan plan(call);
  dispatch_storage(call.x, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const auto in = inputs_of<S>(call, plan);
    const T* from = states.defined() ? states.data_ptr<T>() : nullptr;
    const auto& of = gradients.direction[0];
    const kernels::RetentionGradients<S> to{rows_of<S>(gradients.x), rows_of<S>(of.b),
                                            rows_of<S>(of.c)};
    plan.run([&](const auto& task) {
      kernels::retention_backward<S>(in, task, rows_of<const S>(dy), from, to);
    });
  });
}

}  // namespace hydramix::on_cpu
