// SPDX-License-Identifier: Apache-2.0
#include "ops/narrow_linear.h"

#include <algorithm>

#include "hydramix/error.h"
#include "kernels/cpu/narrow_linear.h"
#include "ops/arithmetic.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"
#include "ops/product.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const NarrowRows rows(x, weight, bias);
  const int64_t n = x.size(0);
  parallel(kernels::narrow_tasks(n), [&](int64_t task) {
    const int64_t begin = task * kernels::kNarrowRows;
    rows.compute(begin, std::min(begin + kernels::kNarrowRows, n));
  });
  return rows.result();
}

class NarrowLinear : public torch::autograd::Function<NarrowLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
    ctx->save_for_backward({x, weight});
    return run(x, weight, bias);
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const NoAutocast no_autocast;
    const auto in = ctx->get_saved_variables();
    const auto& dy = outputs[0];
    const auto wide = in[0].to(in[1].scalar_type());
    return {matrix_product(dy, in[1]).to(in[0].scalar_type()), matrix_product(dy.t(), wide),
            dy.sum(0)};
  }
};

}  // namespace

Tensor narrow_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  HYDRAMIX_CHECK(x.defined() && weight.defined() && bias.defined() && x.dim() == 2 &&
                     weight.dim() == 2 && weight.size(1) == x.size(1) && weight.size(0) >= 1 &&
                     bias.sizes() == weight.sizes().slice(0, 1),
                 "narrow linear: expected x (n, C), weight (H, C) and bias (H); got ",
                 x.defined() ? concat(x.sizes()) : "undefined", ", ",
                 weight.defined() ? concat(weight.sizes()) : "undefined", " and ",
                 bias.defined() ? concat(bias.sizes()) : "undefined", ".");
  const auto arithmetic = arithmetic_type("narrow linear", "x", x);
  HYDRAMIX_CHECK(weight.scalar_type() == arithmetic && bias.scalar_type() == arithmetic &&
                     weight.device() == x.device() && bias.device() == x.device(),
                 "narrow linear: weight and bias must be ", arithmetic, " on ", x.device(),
                 " for this x; got ", weight.scalar_type(), " on ", weight.device(), ".");
  if (!x.is_cpu()) return torch::addmm(bias, x.to(arithmetic), weight.t());
  const auto rows = packed_rows(x), w = weight.contiguous(), b = bias.contiguous();
  if (wants_gradient({rows, w, b})) return NarrowLinear::apply(rows, w, b);
  return run(rows, w, b);
}

NarrowRows::NarrowRows(const Tensor& x, const Tensor& weight, const Tensor& bias)
    : x_(x), bias_(bias), y_(torch::empty({x.size(0), weight.size(0)}, weight.options())) {
  constexpr int64_t pad = kernels::kNarrowPad;
  columns_ =
      torch::constant_pad_nd(weight.t(), {0, (pad - weight.size(0) % pad) % pad}).contiguous();
}

void NarrowRows::compute(int64_t begin, int64_t end) const {
  dispatch_storage(x_, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const int64_t outputs = y_.size(1);
    const kernels::NarrowProduct<S> p{end - begin,
                                      x_.size(1),
                                      outputs,
                                      {storage<S>(x_) + begin * x_.stride(0), x_.stride(0)},
                                      columns_.data_ptr<T>(),
                                      bias_.data_ptr<T>(),
                                      y_.data_ptr<T>() + begin * outputs};
    for (int64_t task = 0; task < kernels::narrow_tasks(end - begin); ++task)
      kernels::narrow_linear<S>(p, task);
  });
}

}  // namespace hydramix
