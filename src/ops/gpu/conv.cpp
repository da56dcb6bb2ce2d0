// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/conv.h"

#include "kernels/cuda/conv.h"
#include "ops/gpu/launch.h"
#include "ops/gpu/ops.h"
#include "ops/kernel_tensors.h"

namespace hydramix::gpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const float* floats(const Tensor& t) {
  return t.defined() && t.numel() > 0 ? t.data_ptr<float>() : nullptr;
}

cuda::ConvShape shape_of(const Tensor& x, const Tensor& weight, const ConvSettings& s) {
  return {x.size(0), x.size(1), weight.size(-1), s.centre, s.silu};
}

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const ConvSettings& settings, const Tensor& x,
                        const Tensor& weight, const Tensor& bias) {
    ctx->save_for_backward({x, weight, bias});
    ctx->saved_data["settings"] = hold(settings);
    const auto y = torch::empty(x.sizes(), x.options());
    conv_forward(settings, x, weight, bias, y);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("convolution");
    const auto in = ctx->get_saved_variables();
    const auto& settings = held<ConvSettings>(ctx->saved_data["settings"]);
    const auto dx = torch::empty(in[0].sizes(), in[0].options());
    const auto weights = conv_backward(settings, in[0], in[1], in[2], packed_rows(outputs[0]), dx);
    return {Tensor(), dx, weights.first, in[2].numel() == 0 ? Tensor() : weights.second};
  }
};

}  // namespace

void conv_forward(const ConvSettings& settings, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const Tensor& y) {
  const c10::cuda::CUDAGuard guard(x.device());
  dispatch(x, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::conv_forward<S>(shape_of(x, weight, settings), settings.table->bounds(), data<S>(x),
                                x.stride(0), weight.data_ptr<float>(), floats(bias), data<S>(y),
                                y.stride(0), stream()),
          "convolution");
    return 0;
  });
}

std::pair<Tensor, Tensor> conv_backward(const ConvSettings& settings, const Tensor& x,
                                        const Tensor& weight, const Tensor& bias, const Tensor& dy,
                                        const Tensor& dx) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto shape = shape_of(x, weight, settings);
  const auto dweight = torch::empty(weight.sizes(), weight.options());
  const auto dbias = torch::empty({x.size(1)}, weight.options());
  const auto work = torch::empty({cuda::conv_backward_workspace(shape)}, weight.options());
  dispatch(x, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::conv_backward<S>(shape, settings.table->bounds(), data<S>(x), x.stride(0),
                                 weight.data_ptr<float>(), floats(bias), data<S>(dy), dy.stride(0),
                                 data<S>(dx), dx.stride(0), dweight.data_ptr<float>(),
                                 dbias.data_ptr<float>(), work.data_ptr<float>(), stream()),
          "convolution");
    return 0;
  });
  return {dweight, dbias};
}

Tensor depthwise_conv_silu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           int64_t centre, int64_t silu, const std::vector<int64_t>& offsets) {
  const ConvSettings settings{token_table(offsets, x.device()), centre, silu};
  const auto rows = packed_rows(x), w = weight.contiguous();
  const auto shift = bias.defined() ? bias.contiguous() : torch::empty({0}, weight.options());
  if (wants_gradient({rows, w, shift})) return ConvFunction::apply(settings, rows, w, shift);
  const auto y = torch::empty(x.sizes(), x.options());
  conv_forward(settings, rows, w, shift, y);
  return y;
}

}  // namespace hydramix::gpu
