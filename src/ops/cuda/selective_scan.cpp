// SPDX-License-Identifier: Apache-2.0
#include "ops/selective_scan.h"

#include "kernels/cuda/selective_scan.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/sequence_table.h"

namespace hydramix::on_cuda {
namespace {

using torch::Tensor;

cuda::SelectiveScanShape selective_shape(const SelectiveScanCall& call,
                                         const SequenceTable& table) {
  cuda::SelectiveScanShape shape{};
  shape.n = call.x.size(0), shape.C = call.x.size(1), shape.N = call.params.A.size(1);
  shape.length = table.length();
  shape.dt_low = static_cast<float>(call.params.dt_low);
  shape.dt_high = static_cast<float>(call.params.dt_high);
  return shape;
}

template <typename S>
cuda::SelectiveScanInputs<S> selective_inputs(const SelectiveScanCall& call) {
  const auto& p = call.params;
  return {rows_of<const S>(call.x), rows_of<const S>(p.dt),
          rows_of<const S>(p.b),    rows_of<const S>(p.c),
          p.A.data_ptr<float>(),    p.bias.defined() ? p.bias.data_ptr<float>() : nullptr,
          p.D.data_ptr<float>()};
}

}  // namespace

bool selective_scan_fits(const Tensor&, int64_t N) {
  cuda::SelectiveScanShape shape{};
  shape.N = N;
  return cuda::selective_scan_fits(shape);
}

Tensor selective_scan_forward(const SelectiveScanCall& call, const Tensor& y, bool gradients) {
  if (call.x.size(0) == 0) return {};
  const c10::cuda::CUDAGuard guard(call.x.device());
  const auto table = table_of(call.sequences, call.x.device());
  const auto shape = selective_shape(call, *table);
  Tensor states;
  if (gradients)
    states = torch::empty({cuda::selective_scan_states(shape)}, call.params.A.options());
  const auto work = scratch(cuda::selective_scan_forward_workspace(shape), call.x);
  dispatch(call.x, [&](auto tag) {
    using S = decltype(tag);
    const cuda::SelectiveScanForward<S> p{shape, selective_inputs<S>(call), rows_of<S>(y),
                                          gradients ? states.data_ptr<float>() : nullptr,
                                          work.data_ptr()};
    check(cuda::selective_scan_forward<S>(p, table->bounds(), stream()), "selective scan");
  });
  return states;
}

SelectiveScanParams selective_scan_backward(const SelectiveScanCall& call, const Tensor& states,
                                            const Tensor& dy, const Tensor& dx) {
  const auto& in = call.params;
  const auto empty = [](const Tensor& t) { return torch::empty(t.sizes(), t.options()); };
  SelectiveScanParams d{empty(in.dt), empty(in.A), empty(in.b), empty(in.c), empty(in.D)};
  const auto dbias = empty(in.D);
  if (in.bias.defined()) d.bias = dbias;
  if (call.x.size(0) == 0) {
    for (const auto& t : {d.A, d.D, dbias}) t.zero_();
    return d;
  }
  const c10::cuda::CUDAGuard guard(call.x.device());
  const auto table = table_of(call.sequences, call.x.device());
  const auto shape = selective_shape(call, *table);
  const auto work = scratch(cuda::selective_scan_backward_workspace(shape), call.x);
  dispatch(call.x, [&](auto tag) {
    using S = decltype(tag);
    const cuda::SelectiveScanBackward<S> p{shape,
                                           selective_inputs<S>(call),
                                           states.data_ptr<float>(),
                                           rows_of<const S>(dy),
                                           rows_of<S>(dx),
                                           rows_of<S>(d.dt),
                                           rows_of<S>(d.b),
                                           rows_of<S>(d.c),
                                           d.A.data_ptr<float>(),
                                           dbias.data_ptr<float>(),
                                           d.D.data_ptr<float>(),
                                           work.data_ptr()};
    check(cuda::selective_scan_backward<S>(p, table->bounds(), stream()), "selective scan");
  });
  return d;
}

}  // namespace hydramix::on_cuda
