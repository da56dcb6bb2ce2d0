// SPDX-License-Identifier: Apache-2.0
#include "ops/selective_scan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/selective_scan.h"
#include "ops/cpu/rows.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using torch::Tensor;

// How a call is cut into sequences and chunks.
struct SelectiveChunkRanges {
  kernels::SelectiveShape shape;
  std::vector<kernels::SelectiveRange> sequences;
  int64_t count = 0;
  bool several = false;  // chunks in some sequence

  explicit SelectiveChunkRanges(const SelectiveScanCall& call) {
    // The scratch memory of the backward pass stays in the L1 cache at this length.
    constexpr int64_t kLongest = 12;
    const int64_t tile = std::min(call.tile, kLongest);
    shape = {call.x.size(1), call.params.A.size(1), tile};
    const auto& offsets = call.sequences.offsets();
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      const int64_t length = offsets[s + 1] - offsets[s];
      sequences.push_back({static_cast<int64_t>(s), offsets[s], offsets[s + 1], count});
      count += (length + tile - 1) / tile;
      several = several || length > tile;
    }
  }

  // Calls f(sequence, tasks) in parallel. Sequences are cut by channels where there are too few of
  // them for the threads.
  template <class F>
  void run(F&& f) const {
    const int64_t tasks = shape.tasks(), threads = torch::get_num_threads();
    const auto cut = [&](int64_t parts) { return (tasks + parts - 1) / parts; };
    const int64_t many = 4 * threads / std::max<int64_t>(1, std::ssize(sequences));
    const int64_t size = threads == 1 ? tasks : cut(std::clamp<int64_t>(many, 1, tasks));
    const int64_t parts = cut(size);
    parallel(std::ssize(sequences) * parts, [&](int64_t i) {
      const int64_t begin = i % parts * size;
      f(sequences[static_cast<std::size_t>(i / parts)],
        kernels::SelectiveTasks{begin, std::min(begin + size, tasks)});
    });
  }
};

// A / log(2) (N, padded C) and D (padded C), zero after the channels, 64-byte aligned as LibTorch
// allocates.
struct SelectiveWeights {
  Tensor A, D;

  SelectiveWeights(const SelectiveScanCall& call, const kernels::SelectiveShape& s)
      : A(torch::zeros({s.N, s.padded()}, call.x.options())),
        D(torch::zeros({s.padded()}, call.x.options())) {
    A.narrow(1, 0, s.C).copy_(call.params.A.t() * M_LOG2E);
    D.narrow(0, 0, s.C).copy_(call.params.D);
  }
};

template <typename T>
kernels::SelectiveInputs<T> selective_inputs(const SelectiveScanCall& call,
                                             const SelectiveWeights& weights) {
  return {rows_of<const T>(call.x),        rows_of<const T>(call.params.dt),
          rows_of<const T>(call.params.b), rows_of<const T>(call.params.c),
          weights.A.data_ptr<T>(),         weights.D.data_ptr<T>()};
}

template <class F>
auto dispatch_selective(const Tensor& t, F&& f) {
  return t.scalar_type() == torch::kFloat64 ? f(double{}) : f(float{});
}

// (parts, ...) -> (...). Every entry is summed part by part, so that the order does not depend on
// threads; a run of entries at a time, so that the sums stay in registers or the L1 cache.
template <typename T>
Tensor sum_of_parts(const Tensor& parts) {
  constexpr int64_t kRun = 512;
  auto sum = torch::empty(parts.sizes().slice(1), parts.options());
  const int64_t size = sum.numel();
  const T* const from = parts.data_ptr<T>();
  T* const to = sum.data_ptr<T>();
  parallel((size + kRun - 1) / kRun, [&](int64_t run) {
    const int64_t begin = run * kRun, count = std::min(kRun, size - begin);
    std::array<T, kRun> sums{};
    for (int64_t part = 0; part < parts.size(0); ++part) {
      const T* row = from + part * size + begin;
      if (count == kRun)
        for (std::size_t i = 0; i < kRun; ++i) sums[i] += row[i];  // vectors: the length is known
      else
        for (int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] += row[i];
    }
    std::copy_n(sums.begin(), count, to + begin);
  });
  return sum;
}

}  // namespace

Tensor selective_scan_forward(const SelectiveScanCall& call, const Tensor& y, bool gradients) {
  const SelectiveChunkRanges chunks(call);
  const auto& s = chunks.shape;
  const SelectiveWeights weights(call, s);
  Tensor states;
  if (gradients && chunks.several)
    states = torch::empty({chunks.count, s.tasks(), s.N, s.kTask}, call.x.options());
  dispatch_selective(call.x, [&](auto tag) {
    using T = decltype(tag);
    const kernels::SelectiveForward<T> p{s, selective_inputs<T>(call, weights), rows_of<T>(y),
                                         states.defined() ? states.data_ptr<T>() : nullptr};
    chunks.run([&](const auto& range, const auto& tasks) {
      kernels::selective_scan_forward<T>(p, range, tasks);
    });
  });
  return states;
}

SelectiveScanParams selective_scan_backward(const SelectiveScanCall& call, const Tensor& states,
                                            const Tensor& dy, const Tensor& dx) {
  const SelectiveChunkRanges chunks(call);
  const auto& s = chunks.shape;
  const SelectiveWeights weights(call, s);
  const auto options = call.x.options();
  const int64_t n = call.x.size(0), count = call.sequences.count();
  const auto ddt = torch::empty({n, s.C}, options);
  const auto db = torch::empty({s.tasks(), n, s.N}, options), dc = torch::empty_like(db);
  const auto dA = torch::empty({count, s.N, s.padded()}, options);
  const auto dD = torch::empty({count, s.padded()}, options);
  dispatch_selective(call.x, [&](auto tag) {
    using T = decltype(tag);
    const kernels::SelectiveBackward<T> p{
        .shape = s,
        .in = selective_inputs<T>(call, weights),
        .dy = rows_of<const T>(dy),
        .states = states.defined() ? states.data_ptr<T>() : nullptr,
        .dx = rows_of<T>(dx),
        .ddt = rows_of<T>(ddt),
        .db = db.data_ptr<T>(),
        .dc = dc.data_ptr<T>(),
        .dA = dA.data_ptr<T>(),
        .dD = dD.data_ptr<T>(),
        .n = n};
    chunks.run([&](const auto& range, const auto& tasks) {
      kernels::selective_scan_backward<T>(p, range, tasks);
    });
  });
  const auto of_weights = [&](const Tensor& t) { return ordered_sum(t).to(options.dtype()); };
  const auto of_tasks = [](const Tensor& t) {
    return dispatch_selective(t, [&](auto tag) { return sum_of_parts<decltype(tag)>(t); });
  };
  return {ddt, of_weights(dA.flatten(1)).view({s.N, s.padded()}).narrow(1, 0, s.C).t(),
          of_tasks(db), of_tasks(dc), of_weights(dD).narrow(0, 0, s.C)};
}

}  // namespace hydramix::on_cpu
