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
  // initial_module(). They do not take part in autograd. Throws UsageError when shapes do not fit.
  BorrowedModule(const std::string& spec, at::TensorList weights);
  // Gives the module back without the weights.
  ~BorrowedModule();
  BorrowedModule(const BorrowedModule&) = delete;
  BorrowedModule& operator=(const BorrowedModule&) = delete;

  // Makes the module's weight i a leaf of autograd, and returns it.
  const torch::Tensor& differentiate(int64_t i) const;
  // Gradients of the module's weights go on to the given ones.
  void join_graph_of(at::TensorList weights);

  // The next call rounds all weights again.
  void forget_rounded_weights();

  torch::Tensor call(const ModuleCall& call) const;
  bool can_be_captured(torch::Device device) const;
  const std::vector<std::string>& names() const;  // of the weights

  struct Pooled;  // a module and its last weights

 private:
  std::string spec_;
  std::unique_ptr<Pooled> pooled_;
  std::vector<GradAccumulator> accumulators_;  // of the given weights
};

// The published names of the weights, sorted, and their initial values.
struct InitialModule {
  std::vector<std::string> names;
  std::vector<torch::Tensor> weights;
};
InitialModule initial_module(const std::string& spec);

}  // namespace hydramix
