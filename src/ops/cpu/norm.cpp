// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "kernels/cpu/norm.h"
#include "ops/cpu/rows.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
using kernels::norm_tasks;
using torch::Tensor;

void gated_norm_forward(const GatedNormCall& call, const Tensor& out) {
  const auto &y = call.y, &z = call.z;
  dispatch_storage(y, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const kernels::GatedNormForward<S> p{.rows = y.size(0),
                                         .C = y.size(1),
                                         .Z = z.size(1),
                                         .eps = call.eps,
                                         .y = rows_of<const S>(y),
                                         .z = rows_of<const S>(z),
                                         .weight = call.weight.data_ptr<T>(),
                                         .out = rows_of<S>(out)};
    parallel(norm_tasks(p.rows), [&](int64_t i) { kernels::gated_norm_forward<S>(p, i); });
  });
}

Tensor gated_norm_backward(const GatedNormCall& call, const Tensor& dout, const Tensor& dy,
                           const Tensor& dz) {
  const auto &y = call.y, &z = call.z;
  const auto partial = torch::empty({norm_tasks(y.size(0)), y.size(1)}, call.weight.options());
  dispatch_storage(y, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const kernels::GatedNormBackward<S> p{.rows = y.size(0),
                                          .C = y.size(1),
                                          .Z = z.size(1),
                                          .eps = call.eps,
                                          .y = rows_of<const S>(y),
                                          .z = rows_of<const S>(z),
                                          .weight = call.weight.data_ptr<T>(),
                                          .dout = rows_of<const S>(dout),
                                          .dy = rows_of<S>(dy),
                                          .dz = rows_of<S>(dz),
                                          .workspace = partial.data_ptr<T>()};
    parallel(norm_tasks(p.rows), [&](int64_t i) { kernels::gated_norm_backward<S>(p, i); });
  });
  return ordered_sum(partial);
}

void layer_norm_forward(const LayerNormCall& call, const Tensor& out) {
  const auto& a = call.a;
  dispatch_storage(a, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const kernels::LayerNormForward<S, S> p{.rows = a.size(0),
                                            .C = a.size(1),
                                            .eps = call.eps,
                                            .a = rows_of<const S>(a),
                                            .b = rows_of<const S>(call.b),
                                            .weight = call.weight.data_ptr<T>(),
                                            .bias = call.bias.data_ptr<T>(),
                                            .out = rows_of<S>(out)};
    parallel(norm_tasks(p.rows), [&](int64_t i) { kernels::layer_norm_forward<S>(p, i); });
  });
}

LayerNormGradients layer_norm_backward(const LayerNormCall& call, const Tensor& dout) {
  const auto& a = call.a;
  const int64_t C = a.size(1);
  const auto dsum = torch::empty(a.sizes(), a.options());
  const auto partial = torch::empty({norm_tasks(a.size(0)), 2 * C}, call.weight.options());
  dispatch_storage(a, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const kernels::LayerNormBackward<S, S> p{.rows = a.size(0),
                                             .C = C,
                                             .eps = call.eps,
                                             .a = rows_of<const S>(a),
                                             .b = rows_of<const S>(call.b),
                                             .weight = call.weight.data_ptr<T>(),
                                             .dout = rows_of<const S>(dout),
                                             .da = rows_of<S>(dsum),
                                             .workspace = partial.data_ptr<T>()};
    parallel(norm_tasks(p.rows), [&](int64_t i) { kernels::layer_norm_backward<S>(p, i); });
  });
  const auto sums = ordered_sum(partial);
  return {dsum, sums.narrow(0, 0, C), sums.narrow(0, C, C)};
}

}  // namespace hydramix::on_cpu
