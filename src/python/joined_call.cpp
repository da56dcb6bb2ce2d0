// SPDX-License-Identifier: Apache-2.0
#include "python/joined_call.h"

#include <torch/csrc/autograd/function_hook.h>

#include "hydramix/error.h"
#include "python/module_pool.h"

namespace hydramix {
namespace {

using torch::Tensor;

// At the entry of the module's graph: keeps the module as long as the graph, and before a backward
// pass checks that the weights are still those of the forward pass. PyTorch checks the module's
// own tensors, which do not see writes to Python's.
class ModuleOfGraph : public torch::autograd::FunctionPreHook {
 public:
  ModuleOfGraph(std::unique_ptr<BorrowedModule> module, at::TensorList weights)
      : module_(std::move(module)), weights_(weights.vec()) {
    for (const auto& weight : weights_) versions_.push_back(version(weight));
  }

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      HYDRAMIX_CHECK(version(weights_[i]) == versions_[i], "weight '", module_->names()[i],
                     "' has been modified by an inplace operation after the forward pass; its "
                     "gradients cannot be computed any more.");
    return gradients;
  }

 private:
  // Tensors made in inference mode count no writes.
  static int64_t version(const Tensor& weight) {
    return weight.is_inference() ? 0 : weight._version();
  }

  std::unique_ptr<BorrowedModule> module_;
  std::vector<Tensor> weights_;
  std::vector<int64_t> versions_;
};

}  // namespace

Tensor joined_call(const std::string& spec, const ModuleCall& call, at::TensorList weights) {
  auto module = std::make_unique<BorrowedModule>(spec, weights);
  module->join_graph_of(weights);
  auto output = module->call(call);
  output = output.is_alias_of(call.input) ? output.clone() : output.contiguous();
  if (output.requires_grad())
    output.grad_fn()->add_pre_hook(std::make_unique<ModuleOfGraph>(std::move(module), weights));
  return output;
}

}  // namespace hydramix
