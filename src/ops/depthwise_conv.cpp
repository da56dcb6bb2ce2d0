// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv.h"

#include "hydramix/error.h"
#include "ops/arithmetic.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The arguments of a call that are not tensors.
struct ConvSettings {
  int64_t centre, silu;
  Sequences sequences;

  ConvCall call(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    return {x, weight, bias, centre, silu, sequences};
  }
};

Tensor convolved(const ConvCall& call) {
  auto y = torch::empty(call.x.sizes(), call.x.options());
  HYDRAMIX_ON_BACKEND(y, conv_forward, call, y);
  return y;
}

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const ConvSettings& settings, const Tensor& x,
                        const Tensor& weight, const Tensor& bias) {
    ctx->save_for_backward({x, weight, bias});
    ctx->saved_data["settings"] = hold(settings);
    return convolved(settings.call(x, weight, bias));
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("convolution");
    const auto in = ctx->get_saved_variables();
    const auto call = held<ConvSettings>(ctx->saved_data["settings"]).call(in[0], in[1], in[2]);
    const auto dx = torch::empty(in[0].sizes(), in[0].options());
    const auto weights = HYDRAMIX_ON_BACKEND(dx, conv_backward, call, packed_rows(outputs[0]), dx);
    return {Tensor(), dx, weights.weight, weights.bias};
  }
};

// Row by row with LibTorch's operations.
Tensor convolved_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, bool causal,
                     int64_t silu, const Layout& layout) {
  Tensor sum;
  for (const Layout& part : layout.parts()) {
    const auto u = depthwise_conv_ref(part.to_rows(x), weight, bias, causal);
    const auto y = part.from_rows(
        torch::cat({torch::silu(u.narrow(2, 0, silu)), u.narrow(2, silu, x.size(2) - silu)}, 2));
    sum = sum.defined() ? sum + y : y;
  }
  return sum;
}

}  // namespace

Tensor depthwise_conv_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, bool causal) {
  const int64_t L = x.size(1), K = weight.size(2), centre = causal ? K - 1 : K / 2;
  const auto padded =
      torch::constant_pad_nd(x, {0, 0, centre, K - 1 - centre});  // (S, L + K - 1, C)
  // A sum of K shifted products: needs no transposes and works for any dtype.
  Tensor y;
  for (int64_t k = 0; k < K; ++k) {
    const auto tap = padded.narrow(1, k, L) * weight.select(2, k).select(1, 0);
    y = y.defined() ? y + tap : tap;
  }
  return bias.defined() ? y + bias : y;
}

Tensor depthwise_conv_silu(const Tensor& x, const Tensor& weight, const Tensor& bias, bool causal,
                           int64_t silu, const Layout& layout) {
  HYDRAMIX_CHECK(x.defined() && x.dim() == 3 && weight.defined() && weight.dim() == 3 &&
                     weight.size(0) == x.size(2) && weight.size(1) == 1 && weight.size(2) >= 1 &&
                     (!bias.defined() || bias.sizes() == weight.sizes().slice(0, 1)),
                 "convolution: expected x (B, L, C), weight (C, 1, K) and bias (C); got ",
                 x.defined() ? concat(x.sizes()) : "undefined", ", ",
                 weight.defined() ? concat(weight.sizes()) : "undefined", " and ",
                 bias.defined() ? concat(bias.sizes()) : "no bias", ".");
  const auto arithmetic = arithmetic_type("convolution", "x", x);
  HYDRAMIX_CHECK(
      weight.scalar_type() == arithmetic && weight.device() == x.device() &&
          (!bias.defined() || (bias.scalar_type() == arithmetic && bias.device() == x.device())),
      "convolution: weight and bias must be ", arithmetic, " on ", x.device(),
      " for this input; got weight ", weight.scalar_type(), " on ", weight.device(), ".");
  const int64_t B = x.size(0), L = x.size(1), C = x.size(2), K = weight.size(2);
  HYDRAMIX_CHECK(silu >= 0 && silu <= C, "convolution: SiLU for ", silu, " of ", C,
                 " channels. Give a number between the two.");
  layout.check("convolution", B, L);
  const auto sequences = layout.sequences(B, L);
  check_offsets("convolution", sequences.offsets(), B * L);

  if (backend_of(x) == Backend::kLibTorch)
    return convolved_ref(x, weight, bias, causal, silu, layout);
  const ConvSettings settings{causal ? K - 1 : K / 2, silu, sequences};
  const auto rows = packed_rows(x.flatten(0, 1)), taps = weight.contiguous();
  // An autograd function accepts no undefined tensor: a missing bias is an empty tensor.
  const auto shift = bias.defined() ? bias.contiguous() : torch::empty({0}, weight.options());
  const auto y = wants_gradient({rows, taps, shift})
                     ? ConvFunction::apply(settings, rows, taps, shift)
                     : convolved(settings.call(rows, taps, shift));
  return y.view({B, L, C});
}

}  // namespace hydramix
