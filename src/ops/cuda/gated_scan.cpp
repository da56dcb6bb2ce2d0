// SPDX-License-Identifier: Apache-2.0
#include "ops/gated_scan.h"

#include "kernels/cuda/gated_scan.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/sequence_table.h"

namespace hydramix::on_cuda {
namespace {

using torch::Tensor;
using BFloat16 = __nv_bfloat16;

cuda::GatedScanShape gated_shape(const GatedScanCall& call, const SequenceTable& table) {
  cuda::GatedScanShape shape{};
  shape.n = call.x.size(0), shape.H = call.x.size(1), shape.P = call.x.size(2);
  shape.N = call.params.q.size(2);
  shape.length = table.length();
  return shape;
}

// The call with rows that are aligned to 16 bytes.
GatedScanCall aligned(GatedScanCall call) {
  for (auto* t : {&call.x, &call.params.q, &call.params.k, &call.params.g}) *t = aligned_rows(*t);
  return call;
}

template <typename G>
cuda::GatedScanInputs<G> gated_inputs(const GatedScanCall& call) {
  return {rows_of<const BFloat16>(call.params.q), rows_of<const BFloat16>(call.params.k),
          rows_of<const G>(call.params.g), rows_of<const BFloat16>(call.x)};
}

}  // namespace

bool gated_scan_fits(const Tensor& x, int64_t N, bool gradients) {
  if (x.scalar_type() != torch::kBFloat16) return false;
  cuda::GatedScanShape shape{};
  shape.H = x.size(1), shape.N = N, shape.P = x.size(2);
  const c10::cuda::CUDAGuard guard(x.device());
  return cuda::gated_scan_fits(shape, gradients);
}

Tensor gated_scan_forward(const GatedScanCall& given, const Tensor& y, bool) {
  if (given.x.size(0) == 0) return {};
  const c10::cuda::CUDAGuard guard(given.x.device());
  const auto call = aligned(given);
  const auto table = table_of(call.sequences, call.x.device());
  const auto shape = gated_shape(call, *table);
  const auto states = torch::empty({cuda::gated_scan_states(shape)}, call.x.options());
  const auto work = scratch(cuda::gated_scan_forward_workspace(shape), call.x);
  dispatch(call.params.g, [&](auto tag) {
    using G = decltype(tag);
    const cuda::GatedScanForward<G> p{shape, gated_inputs<G>(call), rows_of<BFloat16>(y),
                                      data<BFloat16>(states), work.data_ptr()};
    check(cuda::gated_scan_forward<G>(p, table->bounds(), stream()), "gated scan");
  });
  return states;
}

void gated_scan_backward(const GatedScanCall& given, const Tensor& states, const Tensor& dy,
                         const Tensor& dx, const GatedScanParams& d) {
  if (given.x.size(0) == 0) return;
  const c10::cuda::CUDAGuard guard(given.x.device());
  const auto call = aligned(given);
  const auto gradient = aligned_rows(dy);
  const auto table = table_of(call.sequences, call.x.device());
  const auto shape = gated_shape(call, *table);
  const auto work = scratch(cuda::gated_scan_backward_workspace(shape), call.x);
  dispatch(call.params.g, [&](auto tag) {
    using G = decltype(tag);
    const cuda::GatedScanBackward<G> p{shape,
                                       gated_inputs<G>(call),
                                       data<BFloat16>(states),
                                       rows_of<const BFloat16>(gradient),
                                       rows_of<BFloat16>(d.q),
                                       rows_of<BFloat16>(d.k),
                                       rows_of<G>(d.g),
                                       rows_of<BFloat16>(dx),
                                       work.data_ptr()};
    check(cuda::gated_scan_backward<G>(p, table->bounds(), stream()), "gated scan");
  });
}

}  // namespace hydramix::on_cuda
