// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/norm.h"

#include "kernels/cuda/norm.h"
#include "ops/gpu/launch.h"
#include "ops/gpu/ops.h"
#include "ops/kernel_tensors.h"

namespace hydramix::gpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename S>
cuda::StridedRows<S> rows_of(const Tensor& t) {
  if (!t.defined()) return {};
  return {data<std::remove_const_t<S>>(t), t.stride(0)};
}

// (..., C) as (rows, C).
Tensor as_rows(const Tensor& t) { return packed_rows(t.reshape({-1, t.size(-1)})); }

class GatedFunction : public torch::autograd::Function<GatedFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& z,
                        const Tensor& weight, double eps) {
    ctx->save_for_backward({y, z, weight});
    ctx->saved_data["eps"] = eps;
    const auto out = torch::empty(y.sizes(), y.options());
    gated_norm_forward(y, z, weight, eps, out);
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("gated norm");
    const auto in = ctx->get_saved_variables();
    const auto dy = torch::empty(in[0].sizes(), in[0].options());
    const auto dz = torch::empty(in[1].sizes(), in[1].options());
    const auto dweight = gated_norm_backward(in[0], in[1], in[2], ctx->saved_data["eps"].toDouble(),
                                             packed_rows(outputs[0]), dy, dz);
    return {dy, dz, dweight, {}};
  }
};

Tensor layer_forward(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                     double eps) {
  const c10::cuda::CUDAGuard guard(a.device());
  const auto out = torch::empty(a.sizes(), a.options());
  dispatch(a, [&](auto tag) {
    using S = decltype(tag);
    cuda::LayerNormForward<S, S> p{};
    p.rows = a.size(0), p.C = a.size(1), p.eps = static_cast<float>(eps);
    p.a = rows_of<const S>(a);
    p.b = rows_of<const S>(b);
    p.weight = weight.data_ptr<float>(), p.bias = bias.data_ptr<float>();
    p.out = rows_of<S>(out);
    check(cuda::layer_norm_forward<S, S>(p, stream()), "layer norm");
    return 0;
  });
  return out;
}

// b is empty where there is none.
class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b,
                        const Tensor& weight, const Tensor& bias, double eps) {
    ctx->save_for_backward({a, b, weight});
    ctx->saved_data["eps"] = eps;
    return layer_forward(a, b.numel() == a.numel() ? b : Tensor(), weight, bias, eps);
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("layer norm");
    const auto in = ctx->get_saved_variables();
    const auto &a = in[0], &weight = in[2];
    const bool two = in[1].numel() == a.numel();
    const c10::cuda::CUDAGuard guard(a.device());
    const auto dout = packed_rows(outputs[0]);
    const auto dsum = torch::empty(a.sizes(), a.options());
    const auto dweights = torch::empty({2, a.size(1)}, weight.options());
    const auto work = torch::empty({cuda::layer_norm_workspace(a.size(1))}, weight.options());
    dispatch(a, [&](auto tag) {
      using S = decltype(tag);
      cuda::LayerNormBackward<S, S> p{};
      p.rows = a.size(0), p.C = a.size(1);
      p.eps = static_cast<float>(ctx->saved_data["eps"].toDouble());
      p.a = rows_of<const S>(a);
      p.b = rows_of<const S>(two ? in[1] : Tensor());
      p.weight = weight.data_ptr<float>();
      p.dout = rows_of<const S>(dout);
      p.da = rows_of<S>(dsum);
      p.dweight = dweights.data_ptr<float>(), p.dbias = p.dweight + a.size(1);
      p.workspace = work.data_ptr<float>();
      check(cuda::layer_norm_backward<S, S>(p, stream()), "layer norm");
      return 0;
    });
    return {dsum, two ? dsum : Tensor(), dweights[0], dweights[1], {}};
  }
};

}  // namespace

void gated_norm_forward(const Tensor& y, const Tensor& z, const Tensor& weight, double eps,
                        const Tensor& out) {
  const c10::cuda::CUDAGuard guard(y.device());
  dispatch(y, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::gated_norm_forward<S>(
              {y.size(0), y.size(1), z.size(1), static_cast<float>(eps), rows_of<const S>(y),
               rows_of<const S>(z), weight.data_ptr<float>(), rows_of<S>(out)},
              stream()),
          "gated norm");
    return 0;
  });
}

Tensor gated_norm_backward(const Tensor& y, const Tensor& z, const Tensor& weight, double eps,
                           const Tensor& dout, const Tensor& dy, const Tensor& dz) {
  const c10::cuda::CUDAGuard guard(y.device());
  const auto dweight = torch::empty(weight.sizes(), weight.options());
  const auto work = torch::empty({cuda::gated_norm_workspace(y.size(1))}, weight.options());
  dispatch(y, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::gated_norm_backward<S>(
              {y.size(0), y.size(1), z.size(1), static_cast<float>(eps), rows_of<const S>(y),
               rows_of<const S>(z), weight.data_ptr<float>(), rows_of<const S>(dout),
               rows_of<S>(dy), rows_of<S>(dz), dweight.data_ptr<float>(), work.data_ptr<float>()},
              stream()),
          "gated norm");
    return 0;
  });
  return dweight;
}

Tensor gated_rms_norm(const Tensor& y, const Tensor& z, const Tensor& weight, double eps) {
  const auto rows = as_rows(y), gates = as_rows(z), w = weight.contiguous();
  if (wants_gradient({rows, gates, w}))
    return GatedFunction::apply(rows, gates, w, eps).view(y.sizes());
  const auto out = torch::empty(rows.sizes(), rows.options());
  gated_norm_forward(rows, gates, w, eps, out);
  return out.view(y.sizes());
}

Tensor add_layer_norm(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                      double eps) {
  const auto rows = as_rows(a), w = weight.contiguous(), shift = bias.contiguous();
  const auto other = b.defined() ? as_rows(b) : torch::empty({0}, a.options());
  if (wants_gradient({rows, other, w, shift}))
    return LayerFunction::apply(rows, other, w, shift, eps).view(a.sizes());
  return layer_forward(rows, b.defined() ? other : Tensor(), w, shift, eps).view(a.sizes());
}

}  // namespace hydramix::gpu
