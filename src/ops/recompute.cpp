// SPDX-License-Identifier: Apache-2.0
#include "ops/recompute.h"

#include "ops/kernel_tensors.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  // Runs without autograd, so no intermediate result of f is saved.
  static Tensor forward(AutogradContext* ctx, const Tensor& x, at::TensorList parameters,
                        const TensorFunction& f) {
    variable_list inputs{x};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(inputs));
    ctx->saved_data["f"] = hold(f);
    return f(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("recompute");
    const auto& f = held<TensorFunction>(ctx->saved_data["f"]);
    auto saved = ctx->get_saved_variables();
    const auto x = saved[0].detach().requires_grad_();
    Tensor y;
    {
      const torch::AutoGradMode with_graph(true);
      y = f(x);
    }
    variable_list wanted{x};
    for (std::size_t i = 1; i < saved.size(); ++i)
      if (saved[i].requires_grad()) wanted.push_back(saved[i]);
    const auto found = torch::autograd::grad({y}, wanted, {outputs[0]}, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    variable_list gradients{found[0]};
    for (std::size_t i = 1, at = 1; i < saved.size(); ++i)
      gradients.push_back(saved[i].requires_grad() ? found[at++] : Tensor());
    gradients.emplace_back();  // f
    return gradients;
  }
};

}  // namespace

Tensor recomputed(const TensorFunction& f, const Tensor& x, const std::vector<Tensor>& parameters) {
  std::vector<Tensor> inputs = parameters;
  inputs.push_back(x);
  if (!wants_gradient(inputs)) return f(x);
  return Recomputed::apply(x, at::TensorList(parameters), f);
}

}  // namespace hydramix
