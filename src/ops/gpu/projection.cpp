// SPDX-License-Identifier: Apache-2.0
// Products with weights. LibTorch's own linear() would round the gradient of a weight to bfloat16
// and widen it again: here it is summed and left in float32.
#include "ops/gpu/ops.h"
#include "ops/gpu/rounded_weights.h"
#include "ops/gpu/sums.h"
#include "ops/kernel_tensors.h"

namespace hydramix::gpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor product(const Tensor& x, const Tensor& w, const Tensor& bias) {
  return bias.defined() && bias.numel() > 0 ? torch::addmm(bias.to(torch::kBFloat16), x, w.t())
                                            : torch::mm(x, w.t());
}

class ProjectFunction : public torch::autograd::Function<ProjectFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
    const auto w = rounded(weight);
    ctx->save_for_backward({x, w, weight});  // the last one to be told if it was written
    ctx->saved_data["type"] = static_cast<int64_t>(weight.scalar_type());
    ctx->saved_data["bias"] = bias.numel() > 0;
    return product(x, w, bias);
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("projection");
    const auto in = ctx->get_saved_variables();
    const auto dy = outputs[0].contiguous();
    const auto type = static_cast<torch::ScalarType>(ctx->saved_data["type"].toInt());
    variable_list grads(3);
    if (ctx->needs_input_grad(0)) grads[0] = torch::mm(dy, in[1]);
    if (ctx->needs_input_grad(1)) grads[1] = product_in_float(dy.t(), in[0]).to(type);
    if (ctx->saved_data["bias"].toBool()) grads[2] = column_sums(dy).to(type);
    return grads;
  }
};

}  // namespace

Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto rows = x.reshape({-1, x.size(-1)});
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  // An autograd function takes no undefined tensors: a bias that is not there is empty.
  const auto shift = bias.defined() ? bias : torch::empty({0}, weight.options());
  if (wants_gradient({rows, weight, shift}))
    return ProjectFunction::apply(rows, weight, shift).view(shape);
  return product(rows, rounded(weight), bias).view(shape);
}

}  // namespace hydramix::gpu
