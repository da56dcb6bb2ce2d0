// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv.h"

#include "kernels/cuda/conv.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/sequence_table.h"

namespace hydramix::on_cuda {
namespace {

using torch::Tensor;

cuda::ConvShape shape_of(const ConvCall& call) {
  return {call.x.size(0), call.x.size(1), call.weight.size(2), call.centre, call.silu};
}

const float* bias_of(const ConvCall& call) {
  return call.bias.numel() > 0 ? call.bias.data_ptr<float>() : nullptr;
}

}  // namespace

void conv_forward(const ConvCall& call, const Tensor& y) {
  const auto& x = call.x;
  const c10::cuda::CUDAGuard guard(x.device());
  const auto table = table_of(call.sequences, x.device());
  dispatch(x, [&](auto tag) {
    using S = decltype(tag);
    const cuda::ConvForward<S> p{shape_of(call), rows_of<const S>(x), call.weight.data_ptr<float>(),
                                 bias_of(call), rows_of<S>(y)};
    check(cuda::conv_forward<S>(p, table->bounds(), stream()), "convolution");
  });
}

ConvWeightGradients conv_backward(const ConvCall& call, const Tensor& dy, const Tensor& dx) {
  const auto& x = call.x;
  const c10::cuda::CUDAGuard guard(x.device());
  const auto table = table_of(call.sequences, x.device());
  const auto shape = shape_of(call);
  const auto options = call.weight.options();
  const auto dweight = torch::empty(call.weight.sizes(), options);
  const auto dbias = torch::empty({x.size(1)}, options);
  const auto work = torch::empty({cuda::conv_backward_workspace(shape)}, options);
  dispatch(x, [&](auto tag) {
    using S = decltype(tag);
    const cuda::ConvBackward<S> p{shape,
                                  rows_of<const S>(x),
                                  call.weight.data_ptr<float>(),
                                  bias_of(call),
                                  rows_of<const S>(dy),
                                  rows_of<S>(dx),
                                  work.data_ptr<float>(),
                                  dweight.data_ptr<float>(),
                                  dbias.data_ptr<float>()};
    check(cuda::conv_backward<S>(p, table->bounds(), stream()), "convolution");
  });
  return {dweight, call.bias.numel() == 0 ? Tensor() : dbias};
}

}  // namespace hydramix::on_cuda
