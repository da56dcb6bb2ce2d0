// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "hydramix/error.h"
#include "ops/arithmetic.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// (..., C) as (n, C).
Tensor as_rows(const Tensor& t) { return packed_rows(t.reshape({-1, t.size(-1)})); }

Tensor gated_norm(const GatedNormCall& call) {
  auto out = torch::empty(call.y.sizes(), call.y.options());
  HYDRAMIX_ON_BACKEND(out, gated_norm_forward, call, out);
  return out;
}

class GatedNormFunction : public torch::autograd::Function<GatedNormFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& z,
                        const Tensor& weight, double eps) {
    ctx->save_for_backward({y, z, weight});
    ctx->saved_data["eps"] = eps;
    return gated_norm({y, z, weight, eps});
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("gated norm");
    const auto in = ctx->get_saved_variables();
    const GatedNormCall call{in[0], in[1], in[2], ctx->saved_data["eps"].toDouble()};
    const auto dy = torch::empty(in[0].sizes(), in[0].options());
    const auto dz = torch::empty(in[1].sizes(), in[1].options());
    const auto dweight =
        HYDRAMIX_ON_BACKEND(dy, gated_norm_backward, call, packed_rows(outputs[0]), dy, dz);
    return {dy, dz, dweight, {}};
  }
};

Tensor sum_norm(const LayerNormCall& call) {
  auto out = torch::empty(call.a.sizes(), call.a.options());
  HYDRAMIX_ON_BACKEND(out, layer_norm_forward, call, out);
  return out;
}

LayerNormCall layer_norm_call(const Tensor& a, const Tensor& b, const Tensor& weight,
                              const Tensor& bias, double eps) {
  return {as_rows(a), b.defined() ? as_rows(b) : b, weight, bias, eps};
}

// An autograd function accepts no undefined tensor: without b, a is passed twice and `has_b` is
// false.
class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b,
                        const Tensor& weight, const Tensor& bias, double eps, bool has_b) {
    ctx->save_for_backward({a, b, weight, bias});
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["has_b"] = has_b;
    return sum_norm(layer_norm_call(a, has_b ? b : Tensor(), weight, bias, eps));
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("layer norm");
    const auto in = ctx->get_saved_variables();
    const bool has_b = ctx->saved_data["has_b"].toBool();
    const auto call = layer_norm_call(in[0], has_b ? in[1] : Tensor(), in[2], in[3],
                                      ctx->saved_data["eps"].toDouble());
    const auto g = HYDRAMIX_ON_BACKEND(call.a, layer_norm_backward, call, packed_rows(outputs[0]));
    // The same tensor for both: with two views autograd would not see that they share memory.
    const auto dsum = g.sum.view(in[0].sizes());
    return {dsum, has_b ? dsum : Tensor(), g.weight, g.bias, {}, {}};
  }
};

// LayerNorm(a + b), or LayerNorm(a) if b is undefined, by a kernel.
Tensor layer_norm_by_kernel(const Tensor& a, const Tensor& b, const Tensor& weight,
                            const Tensor& bias, double eps) {
  const auto w = weight.contiguous(), shift = bias.contiguous();
  const auto out =
      wants_gradient({a, b, w, shift})
          ? LayerNormFunction::apply(a, b.defined() ? b : a, w, shift, eps, b.defined())
          : sum_norm(layer_norm_call(a, b, w, shift, eps));
  return out.view(a.sizes());
}

// Throws unless the kernels support the inputs: rows of channels in one of three dtypes, and
// weights in the dtype that these are computed in.
void check_rows(const char* who, const Tensor& a, const Tensor& b, const Tensor& weight) {
  HYDRAMIX_CHECK(a.defined() && b.defined() && weight.defined() && a.dim() >= 1 &&
                     a.dim() == b.dim() && weight.dim() == 1 && a.size(-1) == weight.size(0) &&
                     a.size(-1) >= 1 &&
                     a.sizes().slice(0, a.dim() - 1) == b.sizes().slice(0, b.dim() - 1),
                 who, ": expected two tensors (..., C) and a weight (C); got ",
                 a.defined() ? concat(a.sizes()) : "undefined", ", ",
                 b.defined() ? concat(b.sizes()) : "undefined", " and ",
                 weight.defined() ? concat(weight.sizes()) : "undefined", ".");
  HYDRAMIX_CHECK(
      a.scalar_type() == b.scalar_type() && a.device() == b.device() &&
          weight.device() == a.device() && weight.scalar_type() == arithmetic_type(who, "input", a),
      who,
      ": inputs must agree in dtype and device, and weights be in their arithmetic; "
      "got ",
      a.scalar_type(), ", ", b.scalar_type(), " and weights of ", weight.scalar_type(), ".");
}

}  // namespace

Tensor gated_rms_norm_ref(const Tensor& y, const Tensor& z, const Tensor& weight, double eps) {
  const auto gate = y.size(-1) == z.size(-1)
                        ? z
                        : torch::cat(std::vector<Tensor>(y.size(-1) / z.size(-1), z), -1);
  const auto scale = torch::rsqrt(y.square().mean(-1, /*keepdim=*/true) + eps);
  return y * scale * weight * torch::silu(gate);
}

Tensor gated_rms_norm(const Tensor& y, const Tensor& z, const Tensor& weight, double eps) {
  check_rows("gated norm", y, z, weight);
  HYDRAMIX_CHECK(z.size(-1) >= 1 && y.size(-1) % z.size(-1) == 0, "gated norm: ", y.size(-1),
                 " channels cannot be gated by ", z.size(-1), ". Give a divisor.");
  if (backend_of(y) == Backend::kLibTorch) return gated_rms_norm_ref(y, z, weight, eps);
  const auto rows = as_rows(y), gates = as_rows(z), w = weight.contiguous();
  const auto out = wants_gradient({rows, gates, w}) ? GatedNormFunction::apply(rows, gates, w, eps)
                                                    : gated_norm({rows, gates, w, eps});
  return out.view(y.sizes());
}

Tensor add_layer_norm(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                      double eps) {
  check_rows("layer norm", a, b, weight);
  HYDRAMIX_CHECK(a.sizes() == b.sizes() && bias.defined() && bias.sizes() == weight.sizes() &&
                     bias.scalar_type() == weight.scalar_type(),
                 "layer norm: the two inputs, and weight and bias, must have equal shapes; got ",
                 a.sizes(), " and ", b.sizes(), ".");
  if (backend_of(a) == Backend::kLibTorch)
    return torch::layer_norm(a + b, {a.size(-1)}, weight, bias, eps);
  return layer_norm_by_kernel(a, b, weight, bias, eps);
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  if (backend_of(x) == Backend::kCuda)
    return layer_norm_by_kernel(x, {}, weight.to(torch::kFloat32), bias.to(torch::kFloat32), eps);
  return torch::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

}  // namespace hydramix
