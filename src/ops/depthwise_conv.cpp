// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv.h"

#include "hydramix/error.h"
#include "kernels/cpu/conv.h"
#include "ops/arithmetic.h"
#include "ops/gpu/ops.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix {
namespace {

using kernels::ConvBlock;
using kernels::ConvShape;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ConvPlan {
  ConvShape shape;
  std::vector<ConvBlock> blocks;
};

// weight (K, C), bias (C) or empty, x (n, C).
template <typename S>
Tensor run_forward(const ConvPlan& plan, const Tensor& x, const Tensor& weight,
                   const Tensor& bias) {
  using T = kernels::Arithmetic<S>;
  const auto y = torch::empty(x.sizes(), x.options());
  const T* b = bias.numel() == 0 ? nullptr : bias.data_ptr<T>();
  parallel(static_cast<int64_t>(plan.blocks.size()), [&](int64_t i) {
    kernels::conv_forward<S>(plan.shape, plan.blocks[i], storage<S>(x), x.stride(0),
                             weight.data_ptr<T>(), b, storage<S>(y), y.stride(0));
  });
  return y;
}

template <typename S>
variable_list run_backward(const ConvPlan& plan, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const Tensor& dy) {
  using T = kernels::Arithmetic<S>;
  const auto blocks = static_cast<int64_t>(plan.blocks.size());
  const int64_t K = plan.shape.K, C = plan.shape.C;
  const auto dx = torch::empty(x.sizes(), x.options());
  const auto partial = torch::empty({blocks, (K + 1) * C}, weight.options());
  const T* b = bias.numel() == 0 ? nullptr : bias.data_ptr<T>();
  parallel(blocks, [&](int64_t i) {
    kernels::conv_backward<S>(plan.shape, plan.blocks[i], storage<S>(x), x.stride(0),
                              weight.data_ptr<T>(), b, storage<S>(dy), dy.stride(0), storage<S>(dx),
                              dx.stride(0), partial.data_ptr<T>() + i * (K + 1) * C);
  });
  const auto dweight = ordered_sum(partial).view({K + 1, C});
  return {dx, dweight.narrow(0, 0, K), bias.numel() == 0 ? Tensor() : dweight[K]};
}

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const std::shared_ptr<ConvPlan>& plan,
                        const Tensor& x, const Tensor& weight, const Tensor& bias) {
    ctx->save_for_backward({x, weight, bias});
    ctx->saved_data["plan"] = hold(plan);
    return dispatch_storage(
        x, [&](auto tag) { return run_forward<decltype(tag)>(*plan, x, weight, bias); });
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("convolution");
    const auto in = ctx->get_saved_variables();
    const auto& plan = held<std::shared_ptr<ConvPlan>>(ctx->saved_data["plan"]);
    const auto dy = packed_rows(outputs[0]);
    const auto grads = dispatch_storage(in[0], [&](auto tag) {
      return run_backward<decltype(tag)>(*plan, in[0], in[1], in[2], dy);
    });
    return {Tensor(), grads[0], grads[1], grads[2]};
  }
};

}  // namespace

Tensor depthwise_conv_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, bool causal) {
  const int64_t L = x.size(1), K = weight.size(2), centre = causal ? K - 1 : K / 2;
  const auto padded =
      torch::constant_pad_nd(x, {0, 0, centre, K - 1 - centre});  // (S, L + K - 1, C)
  // K shifted products, in the layout the projection has: no transposes, any dtype.
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
  const auto offsets = layout.offsets(B, L);
  check_offsets("convolution", offsets, B * L);

  if constexpr (gpu::kBuilt)
    if (gpu::takes(x))
      return gpu::depthwise_conv_silu(x.flatten(0, 1), weight, bias, causal ? K - 1 : K / 2, silu,
                                      offsets)
          .view({B, L, C});
  if (!x.is_cpu()) {
    Tensor sum;
    for (const Layout& part : layout.parts()) {
      const auto u = depthwise_conv_ref(part.to_rows(x), weight, bias, causal);
      const auto y = part.from_rows(
          torch::cat({torch::silu(u.narrow(2, 0, silu)), u.narrow(2, silu, C - silu)}, 2));
      sum = sum.defined() ? sum + y : y;
    }
    return sum;
  }
  auto plan = std::make_shared<ConvPlan>();
  plan->shape = {C, K, causal ? K - 1 : K / 2, silu};
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int64_t t = offsets[s]; t < offsets[s + 1]; t += ConvShape::kBlock)
      plan->blocks.push_back(
          {t, std::min(t + ConvShape::kBlock, offsets[s + 1]), offsets[s], offsets[s + 1]});
  const auto rows = packed_rows(x.flatten(0, 1));
  const auto taps = weight.select(1, 0).t().contiguous();  // (K, C)
  // An autograd function takes no undefined tensors: a bias that is not there is empty.
  const auto shift = bias.defined() ? bias.contiguous() : torch::empty({0}, weight.options());
  const auto y = wants_gradient({rows, taps, shift})
                     ? ConvFunction::apply(plan, rows, taps, shift)
                     : dispatch_storage(x, [&](auto tag) {
                         return run_forward<decltype(tag)>(*plan, rows, taps, shift);
                       });
  return y.view({B, L, C});
}

}  // namespace hydramix
