// SPDX-License-Identifier: Apache-2.0
// A differentiable function of named tensors, to be verified and timed.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/measurement.h"
#include "hydramix/torch_compat.h"

namespace hydramix::bench {

struct Function {
  std::function<std::vector<torch::Tensor>()> forward;
  std::vector<std::pair<std::string, torch::Tensor>> inputs;  // leaves that require gradients
  int64_t output_entries = 0;
  double flops = 0;           // of forward; 0: not counted
  double backward_flops = 2;  // factor: those of backward over those of forward

  // The gradients of the inputs, in their order, given the gradients d_outputs; undefined for an
  // input without one.
  std::vector<torch::Tensor> gradients(const std::vector<torch::Tensor>& outputs,
                                       const std::vector<torch::Tensor>& d_outputs,
                                       bool keep_graph = false) const;
  // Forward reads the inputs and writes the outputs; backward reads the inputs and the outputs'
  // gradients and writes those of the inputs.
  Work work(const std::string& pass) const;
};

// Gradients of the outputs to start backward from: cos(frequency i) at entry i. They have both
// signs, and agree between the types up to rounding.
std::vector<torch::Tensor> output_gradients(const std::vector<torch::Tensor>& outputs,
                                            double frequency = 1);

// A leaf of the given type that requires gradients.
torch::Tensor leaf(const torch::Tensor& t, torch::ScalarType type = torch::kFloat32);

// The products input weight^T of linear layers, input (..., in), weight (out, in).
Function matrix_products(const std::vector<std::pair<torch::Tensor, torch::Tensor>>& layers);

// Outputs and gradients of `fast` (float32) against those of `oracle` (float64), which has the same
// inputs in the same order; without inputs, outputs alone. Returns the worst relative error;
// throws, naming the tensor, when it is above the tolerance.
double verify(const std::string& what, const Function& fast, const Function& oracle,
              double tolerance);

// A copy of a module and its weights in float64, the oracle of itself.
template <class Module>
Module in_float64(const Module& module) {
  Module copy(module->options());
  copy->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  auto weights = copy->named_parameters();
  for (const auto& weight : module->named_parameters()) weights[weight.key()].copy_(weight.value());
  return copy;
}

}  // namespace hydramix::bench
