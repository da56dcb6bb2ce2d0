// SPDX-License-Identifier: Apache-2.0
#include "bench/function.h"

#include <algorithm>
#include <limits>

#include "hydramix/error.h"
#include "ops/product.h"

namespace hydramix::bench {
namespace {

// max |a - b| / max |b|, absolute where b is all zero; infinite when a is not finite.
double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  if (b.numel() == 0) return 0;
  const auto x = a.detach().to(torch::kFloat64), y = b.detach().to(torch::kFloat64);
  if (!torch::isfinite(x).all().item<bool>()) return std::numeric_limits<double>::infinity();
  const double scale = y.abs().max().item<double>();
  return (x - y).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

// For each input its gradients (3, ...) for three gradients of the outputs; zero where undefined.
// Three, because the gradient of a one-entry weight is a single sum, which may cancel to almost
// nothing; its relative error would then mean nothing.
std::vector<torch::Tensor> gradient_table(const Function& f,
                                          const std::vector<torch::Tensor>& outputs) {
  std::vector<std::vector<torch::Tensor>> rows(f.inputs.size());
  for (const double frequency : {1.0, 2.3, 3.1}) {
    const auto gradients =
        f.gradients(outputs, output_gradients(outputs, frequency), /*keep_graph=*/true);
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i].push_back(gradients[i].defined() ? gradients[i]
                                               : torch::zeros_like(f.inputs[i].second));
  }
  std::vector<torch::Tensor> table;
  for (const auto& of_input : rows) table.push_back(torch::stack(of_input));
  return table;
}

}  // namespace

std::vector<torch::Tensor> Function::gradients(const std::vector<torch::Tensor>& outputs,
                                               const std::vector<torch::Tensor>& d_outputs,
                                               bool keep_graph) const {
  torch::autograd::variable_list leaves;
  for (const auto& [name, tensor] : inputs) leaves.push_back(tensor);
  return torch::autograd::grad(outputs, leaves, d_outputs, keep_graph, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

Work Function::work(const std::string& pass) const {
  int64_t input_entries = 0;
  for (const auto& [name, tensor] : inputs) input_entries += tensor.numel();
  const auto in = static_cast<double>(input_entries), out = static_cast<double>(output_entries);
  if (pass == "forward") return {.flops = flops, .bytes = 4 * (in + out)};
  return {.flops = (1 + backward_flops) * flops, .bytes = 4 * (3 * in + 2 * out)};
}

std::vector<torch::Tensor> output_gradients(const std::vector<torch::Tensor>& outputs,
                                            double frequency) {
  std::vector<torch::Tensor> gradients;
  for (const auto& output : outputs)
    gradients.push_back(torch::arange(output.numel(), torch::kFloat64)
                            .mul_(frequency)
                            .cos_()
                            .to(output.scalar_type())
                            .view(output.sizes()));
  return gradients;
}

torch::Tensor leaf(const torch::Tensor& t, torch::ScalarType type) {
  return t.detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
}

Function matrix_products(const std::vector<std::pair<torch::Tensor, torch::Tensor>>& layers) {
  Function f;
  for (const auto& [input, weight] : layers) {
    f.inputs.emplace_back("input", input);
    f.inputs.emplace_back("weight", weight);
    const int64_t rows = input.numel() / input.size(-1);
    f.output_entries += rows * weight.size(0);
    f.flops += 2.0 * static_cast<double>(rows) * static_cast<double>(weight.numel());
  }
  f.forward = [layers] {
    std::vector<torch::Tensor> outputs;
    for (const auto& [input, weight] : layers) {
      const auto y = linear_map(input, weight);
      // Inference keeps no product for backward.
      if (torch::GradMode::is_enabled()) outputs.push_back(y);
    }
    return outputs;
  };
  return f;
}

double verify(const std::string& what, const Function& fast, const Function& oracle,
              double tolerance) {
  double worst = 0;
  const auto compare = [&](const std::string& part, const torch::Tensor& a,
                           const torch::Tensor& b) {
    const double error = relative_error(a, b);
    HYDRAMIX_CHECK(error <= tolerance, "bench: ", what, ": ", part, " ", a.sizes(),
                   " is off its float64 oracle by ", error, ", expected at most ", tolerance,
                   " (relative to its largest entry). Nothing wrong is timed: find the error, or "
                   "set --tolerance if the oracle allows it.");
    worst = std::max(worst, error);
  };
  const auto outputs = fast.forward(), expected = oracle.forward();
  for (std::size_t i = 0; i < expected.size(); ++i) compare("the output", outputs[i], expected[i]);
  if (oracle.inputs.empty()) return worst;
  const auto gradients = gradient_table(fast, outputs);
  const auto true_gradients = gradient_table(oracle, expected);
  for (std::size_t i = 0; i < oracle.inputs.size(); ++i)
    compare("the gradient of " + oracle.inputs[i].first, gradients[i], true_gradients[i]);
  return worst;
}

}  // namespace hydramix::bench
