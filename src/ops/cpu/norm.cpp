// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "kernels/cpu/norm.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using kernels::kNormRows;
using torch::Tensor;

int64_t row_runs(int64_t n) { return (n + kNormRows - 1) / kNormRows; }

// task(first row, rows, index) for every run of kNormRows rows.
void for_row_runs(int64_t n, const std::function<void(int64_t, int64_t, int64_t)>& task) {
  parallel(row_runs(n),
           [&](int64_t i) { task(i * kNormRows, std::min(kNormRows, n - i * kNormRows), i); });
}

template <typename S>
S* row(const Tensor& t, int64_t r) {
  return storage<S>(t) + r * t.stride(0);
}

}  // namespace

void gated_norm_forward(const GatedNormCall& call, const Tensor& out) {
  const auto &y = call.y, &z = call.z;
  dispatch_storage(y, [&](auto tag) {
    using S = decltype(tag);
    for_row_runs(y.size(0), [&](int64_t r, int64_t rows, int64_t) {
      kernels::gated_rms_norm_forward<S>(rows, y.size(1), z.size(1), call.eps, row<S>(y, r),
                                         y.stride(0), row<S>(z, r), z.stride(0),
                                         call.weight.data_ptr<kernels::Arithmetic<S>>(),
                                         row<S>(out, r), out.stride(0));
    });
  });
}

Tensor gated_norm_backward(const GatedNormCall& call, const Tensor& dout, const Tensor& dy,
                           const Tensor& dz) {
  const auto &y = call.y, &z = call.z;
  const auto partial = torch::empty({row_runs(y.size(0)), y.size(1)}, call.weight.options());
  dispatch_storage(y, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    for_row_runs(y.size(0), [&](int64_t r, int64_t rows, int64_t i) {
      kernels::gated_rms_norm_backward<S>(
          rows, y.size(1), z.size(1), call.eps, row<S>(y, r), y.stride(0), row<S>(z, r),
          z.stride(0), call.weight.data_ptr<T>(), row<S>(dout, r), dout.stride(0), row<S>(dy, r),
          dy.stride(0), row<S>(dz, r), dz.stride(0), partial.data_ptr<T>() + i * y.size(1));
    });
  });
  return ordered_sum(partial);
}

void layer_norm_forward(const LayerNormCall& call, const Tensor& out) {
  const auto &a = call.a, &b = call.b;
  dispatch_storage(a, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    for_row_runs(a.size(0), [&](int64_t r, int64_t rows, int64_t) {
      kernels::add_layer_norm_forward<S>(rows, a.size(1), call.eps, row<S>(a, r), a.stride(0),
                                         b.defined() ? row<S>(b, r) : nullptr,
                                         b.defined() ? b.stride(0) : 0, call.weight.data_ptr<T>(),
                                         call.bias.data_ptr<T>(), row<S>(out, r), out.stride(0));
    });
  });
}

LayerNormGradients layer_norm_backward(const LayerNormCall& call, const Tensor& dout) {
  const auto &a = call.a, &b = call.b;
  const int64_t C = a.size(1);
  const auto dsum = torch::empty(a.sizes(), a.options());
  const auto partial = torch::empty({row_runs(a.size(0)), 2 * C}, call.weight.options());
  dispatch_storage(a, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    for_row_runs(a.size(0), [&](int64_t r, int64_t rows, int64_t i) {
      kernels::add_layer_norm_backward<S>(
          rows, C, call.eps, row<S>(a, r), a.stride(0), b.defined() ? row<S>(b, r) : nullptr,
          b.defined() ? b.stride(0) : 0, call.weight.data_ptr<T>(), row<S>(dout, r), dout.stride(0),
          row<S>(dsum, r), C, partial.data_ptr<T>() + i * 2 * C);
    });
  });
  const auto sums = ordered_sum(partial);
  return {dsum, sums.narrow(0, 0, C), sums.narrow(0, C, C)};
}

}  // namespace hydramix::on_cpu
