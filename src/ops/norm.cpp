// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "hydramix/error.h"
#include "kernels/cpu/norm.h"
#include "ops/arithmetic.h"
#include "ops/gpu/ops.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix {
namespace {

using kernels::kNormRows;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor as_rows(const Tensor& t) { return packed_rows(t.reshape({-1, t.size(-1)})); }

// task(first row, rows, index) for every run of kNormRows rows.
void for_row_runs(int64_t n, const std::function<void(int64_t, int64_t, int64_t)>& task) {
  parallel((n + kNormRows - 1) / kNormRows,
           [&](int64_t i) { task(i * kNormRows, std::min(kNormRows, n - i * kNormRows), i); });
}

Tensor partial_rows(int64_t n, int64_t width, const Tensor& weight) {
  return torch::empty({(n + kNormRows - 1) / kNormRows, width}, weight.options());
}

template <typename S>
Tensor gated_forward(const Tensor& y, const Tensor& z, const Tensor& weight, double eps) {
  const auto out = torch::empty(y.sizes(), y.options());
  for_row_runs(y.size(0), [&](int64_t r, int64_t rows, int64_t) {
    kernels::gated_rms_norm_forward<S>(
        rows, y.size(1), z.size(1), eps, storage<S>(y) + r * y.stride(0), y.stride(0),
        storage<S>(z) + r * z.stride(0), z.stride(0), weight.data_ptr<kernels::Arithmetic<S>>(),
        storage<S>(out) + r * out.stride(0), out.stride(0));
  });
  return out;
}

template <typename S>
variable_list gated_backward(const Tensor& y, const Tensor& z, const Tensor& weight, double eps,
                             const Tensor& dout) {
  using T = kernels::Arithmetic<S>;
  const auto dy = torch::empty(y.sizes(), y.options()), dz = torch::empty(z.sizes(), z.options());
  const auto partial = partial_rows(y.size(0), y.size(1), weight);
  for_row_runs(y.size(0), [&](int64_t r, int64_t rows, int64_t i) {
    kernels::gated_rms_norm_backward<S>(
        rows, y.size(1), z.size(1), eps, storage<S>(y) + r * y.stride(0), y.stride(0),
        storage<S>(z) + r * z.stride(0), z.stride(0), weight.data_ptr<T>(),
        storage<S>(dout) + r * dout.stride(0), dout.stride(0), storage<S>(dy) + r * dy.stride(0),
        dy.stride(0), storage<S>(dz) + r * dz.stride(0), dz.stride(0),
        partial.data_ptr<T>() + i * y.size(1));
  });
  return {dy, dz, ordered_sum(partial)};
}

class GatedFunction : public torch::autograd::Function<GatedFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& z,
                        const Tensor& weight, double eps) {
    ctx->save_for_backward({y, z, weight});
    ctx->saved_data["eps"] = eps;
    return dispatch_storage(
        y, [&](auto tag) { return gated_forward<decltype(tag)>(y, z, weight, eps); });
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("gated norm");
    const auto in = ctx->get_saved_variables();
    const double eps = ctx->saved_data["eps"].toDouble();
    const auto dout = packed_rows(outputs[0]);
    auto grads = dispatch_storage(in[0], [&](auto tag) {
      return gated_backward<decltype(tag)>(in[0], in[1], in[2], eps, dout);
    });
    grads.push_back({});
    return grads;
  }
};

template <typename S>
Tensor layer_forward(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                     double eps) {
  using T = kernels::Arithmetic<S>;
  const auto out = torch::empty(a.sizes(), a.options());
  for_row_runs(a.size(0), [&](int64_t r, int64_t rows, int64_t) {
    kernels::add_layer_norm_forward<S>(rows, a.size(1), eps, storage<S>(a) + r * a.stride(0),
                                       a.stride(0), storage<S>(b) + r * b.stride(0), b.stride(0),
                                       weight.data_ptr<T>(), bias.data_ptr<T>(),
                                       storage<S>(out) + r * out.stride(0), out.stride(0));
  });
  return out;
}

template <typename S>
variable_list layer_backward(const Tensor& a, const Tensor& b, const Tensor& weight, double eps,
                             const Tensor& dout) {
  using T = kernels::Arithmetic<S>;
  const int64_t C = a.size(1);
  const auto dsum = torch::empty(a.sizes(), a.options());
  const auto partial = partial_rows(a.size(0), 2 * C, weight);
  for_row_runs(a.size(0), [&](int64_t r, int64_t rows, int64_t i) {
    kernels::add_layer_norm_backward<S>(
        rows, C, eps, storage<S>(a) + r * a.stride(0), a.stride(0), storage<S>(b) + r * b.stride(0),
        b.stride(0), weight.data_ptr<T>(), storage<S>(dout) + r * dout.stride(0), dout.stride(0),
        storage<S>(dsum) + r * C, C, partial.data_ptr<T>() + i * 2 * C);
  });
  const auto dweight = ordered_sum(partial);
  return {dsum, dsum, dweight.narrow(0, 0, C), dweight.narrow(0, C, C)};
}

class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b,
                        const Tensor& weight, const Tensor& bias, double eps) {
    ctx->save_for_backward({a, b, weight});
    ctx->saved_data["eps"] = eps;
    return dispatch_storage(a, [&](auto tag) {
      return layer_forward<decltype(tag)>(as_rows(a), as_rows(b), weight, bias, eps);
    });
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("layer norm");
    const auto in = ctx->get_saved_variables();
    const double eps = ctx->saved_data["eps"].toDouble();
    const auto dout = packed_rows(outputs[0]);
    auto grads = dispatch_storage(in[0], [&](auto tag) {
      return layer_backward<decltype(tag)>(as_rows(in[0]), as_rows(in[1]), in[2], eps, dout);
    });
    // One tensor for both: a view each would hide from autograd that they share their memory.
    grads[0] = grads[1] = grads[0].view(in[0].sizes());
    grads.push_back({});
    return grads;
  }
};

// What kernels take: rows of channels in one of three storages, weights in its arithmetic.
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
  if constexpr (gpu::kBuilt)
    if (gpu::takes(y)) return gpu::gated_rms_norm(y, z, weight, eps);
  if (!y.is_cpu()) return gated_rms_norm_ref(y, z, weight, eps);
  const auto rows = as_rows(y), gates = as_rows(z), w = weight.contiguous();
  const auto out = wants_gradient({y, z, weight})
                       ? GatedFunction::apply(rows, gates, w, eps)
                       : dispatch_storage(y, [&](auto tag) {
                           return gated_forward<decltype(tag)>(rows, gates, w, eps);
                         });
  return out.view(y.sizes());
}

Tensor add_layer_norm(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                      double eps) {
  check_rows("layer norm", a, b, weight);
  HYDRAMIX_CHECK(a.sizes() == b.sizes() && bias.defined() && bias.sizes() == weight.sizes() &&
                     bias.scalar_type() == weight.scalar_type(),
                 "layer norm: the two inputs, and weight and bias, must have equal shapes; got ",
                 a.sizes(), " and ", b.sizes(), ".");
  if constexpr (gpu::kBuilt)
    if (gpu::takes(a)) return gpu::add_layer_norm(a, b, weight, bias, eps);
  if (!a.is_cpu()) return torch::layer_norm(a + b, {a.size(-1)}, weight, bias, eps);
  const auto w = weight.contiguous(), shift = bias.contiguous();
  const auto out =
      wants_gradient({a, b, weight, bias})
          ? LayerFunction::apply(a, b, w, shift, eps)
          : dispatch_storage(a, [&](auto tag) {
              return layer_forward<decltype(tag)>(as_rows(a), as_rows(b), w, shift, eps);
            });
  return out.view(a.sizes());
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  if constexpr (gpu::kBuilt)
    if (gpu::takes(x))
      return gpu::add_layer_norm(x, {}, weight.to(torch::kFloat32), bias.to(torch::kFloat32), eps);
  return torch::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

}  // namespace hydramix
