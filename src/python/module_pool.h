// SPDX-License-Identifier: Apache-2.0
// Modules that compute with weights of Python. A module is expensive to make and owns its weights,
// so modules are kept by their spec and lent to one call at a time: the call's weights become the
// module's without a copy. A call that a backward pass may follow keeps its module until then.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/called_module.h"

namespace hydramix {

class BorrowedModule {
 public:
  // Takes a module of this spec from the pool, or makes one. Weights are in the order of
  // weight_names(). Those whose index is in `differentiable` take part in autograd. Throws
  // UsageError when shapes do not fit.
  BorrowedModule(const std::string& spec, at::TensorList weights,
                 const std::vector<int64_t>& differentiable);
  // Gives the module back without the weights.
  ~BorrowedModule();
  BorrowedModule(const BorrowedModule&) = delete;
  BorrowedModule& operator=(const BorrowedModule&) = delete;

  torch::Tensor call(const ModuleCall& call) const;
  // The module's own tensor that shares the memory of weight i.
  const torch::Tensor& weight(int64_t i) const;

  struct Pooled;  // a module and its last weights

 private:
  std::string spec_;
  std::unique_ptr<Pooled> pooled_;
};

// The published names of the weights, sorted, and their initial values.
struct InitialModule {
  std::vector<std::string> names;
  std::vector<torch::Tensor> weights;
};
InitialModule initial_module(const std::string& spec);

}  // namespace hydramix
