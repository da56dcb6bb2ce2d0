// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "kernels/cuda/norm.h"
#include "ops/cuda/launch.h"

namespace hydramix::on_cuda {
using torch::Tensor;

void gated_norm_forward(const GatedNormCall& call, const Tensor& out) {
  const auto &y = call.y, &z = call.z;
  const c10::cuda::CUDAGuard guard(y.device());
  dispatch(y, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::gated_norm_forward<S>(
              {y.size(0), y.size(1), z.size(1), static_cast<float>(call.eps), rows_of<const S>(y),
               rows_of<const S>(z), call.weight.data_ptr<float>(), rows_of<S>(out)},
              stream()),
          "gated norm");
  });
}

Tensor gated_norm_backward(const GatedNormCall& call, const Tensor& dout, const Tensor& dy,
                           const Tensor& dz) {
  const auto &y = call.y, &z = call.z;
  const c10::cuda::CUDAGuard guard(y.device());
  const auto dweight = torch::empty(call.weight.sizes(), call.weight.options());
  const auto work = torch::empty({cuda::gated_norm_workspace(y.size(1))}, call.weight.options());
  dispatch(y, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::gated_norm_backward<S>(
              {y.size(0), y.size(1), z.size(1), static_cast<float>(call.eps), rows_of<const S>(y),
               rows_of<const S>(z), call.weight.data_ptr<float>(), rows_of<const S>(dout),
               rows_of<S>(dy), rows_of<S>(dz), dweight.data_ptr<float>(), work.data_ptr<float>()},
              stream()),
          "gated norm");
  });
  return dweight;
}

void layer_norm_forward(const LayerNormCall& call, const Tensor& out) {
  const auto& a = call.a;
  const c10::cuda::CUDAGuard guard(a.device());
  dispatch(a, [&](auto tag) {
    using S = decltype(tag);
    cuda::LayerNormForward<S, S> p{};
    p.rows = a.size(0), p.C = a.size(1), p.eps = static_cast<float>(call.eps);
    p.a = rows_of<const S>(a);
    p.b = rows_of<const S>(call.b);
    p.weight = call.weight.data_ptr<float>(), p.bias = call.bias.data_ptr<float>();
    p.out = rows_of<S>(out);
    check(cuda::layer_norm_forward<S, S>(p, stream()), "layer norm");
  });
}

LayerNormGradients layer_norm_backward(const LayerNormCall& call, const Tensor& dout) {
  const auto& a = call.a;
  const c10::cuda::CUDAGuard guard(a.device());
  const auto options = call.weight.options();
  const auto dsum = torch::empty(a.sizes(), a.options());
  const auto dweights = torch::empty({2, a.size(1)}, options);
  const auto work = torch::empty({cuda::layer_norm_workspace(a.size(1))}, options);
  dispatch(a, [&](auto tag) {
    using S = decltype(tag);
    cuda::LayerNormBackward<S, S> p{};
    p.rows = a.size(0), p.C = a.size(1), p.eps = static_cast<float>(call.eps);
    p.a = rows_of<const S>(a);
    p.b = rows_of<const S>(call.b);
    p.weight = call.weight.data_ptr<float>();
    p.dout = rows_of<const S>(dout);
    p.da = rows_of<S>(dsum);
    p.dweight = dweights.data_ptr<float>(), p.dbias = p.dweight + a.size(1);
    p.workspace = work.data_ptr<float>();
    check(cuda::layer_norm_backward<S, S>(p, stream()), "layer norm");
  });
  return {dsum, dweights[0], dweights[1]};
}

}  // namespace hydramix::on_cuda
