// SPDX-License-Identifier: Apache-2.0
#include "onnx/graph.h"

#include <numbers>

#include "base/formatted.h"

namespace hydramix::onnx {
namespace {

// ONNX's numbers of element types.
constexpr int64_t kFloatType = 1;

}  // namespace

Value Graph::input(const Port& port) {
  inputs_.push_back(port);
  return {this, port.name};
}

void Graph::output(const Value& value, const Port& port) {
  outputs_.push_back(port);
  nodes_.push_back({"Identity", port.name, {value.name}, port.name, {}});
}

Value Graph::weight(const std::string& name, const torch::Tensor& data) {
  initializers_.push_back({name, data.detach().to(torch::kCPU, torch::kFloat32).contiguous()});
  return {this, name};
}

Value Graph::constant(const std::string& name, const torch::Tensor& data) {
  if (constants_.emplace(name, true).second) initializers_.push_back({name, data});
  return {this, name};
}

Value Graph::ints(const Ints& values) {
  std::string name = "ints";
  for (const int64_t value : values) name += "_" + std::to_string(value);
  return constant(name, torch::tensor(values, torch::kInt64));
}

Value Graph::integer(int64_t value) {
  return constant("integer_" + std::to_string(value), torch::tensor(value, torch::kInt64));
}

Value Graph::number(float value) {
  // Nine digits distinguish any two float32 numbers.
  return constant(formatted("number_%.9g", static_cast<double>(value)),
                  torch::tensor(value, torch::kFloat32));
}

Value Graph::node(const std::string& op, const std::vector<Value>& inputs,
                  const std::vector<Attribute>& attributes) {
  std::string name = scope_.empty() ? op : scope_ + "/" + op;
  name += "_" + std::to_string(counts_[name]++);
  std::vector<std::string> names;
  for (const auto& input : inputs) names.push_back(input.name);
  nodes_.push_back({op, name, std::move(names), name + ":0", attributes});
  return {this, name + ":0"};
}

Value operator+(const Value& a, const Value& b) { return a.graph->node("Add", {a, b}); }
Value operator-(const Value& a, const Value& b) { return a.graph->node("Sub", {a, b}); }
Value operator*(const Value& a, const Value& b) { return a.graph->node("Mul", {a, b}); }
Value operator/(const Value& a, const Value& b) { return a.graph->node("Div", {a, b}); }
Value exp(const Value& x) { return x.graph->node("Exp", {x}); }
Value silu(const Value& x) { return x * x.graph->node("Sigmoid", {x}); }

Value gelu(const Value& x) {
  Graph& g = *x.graph;
  const auto scaled = x / g.number(static_cast<float>(std::numbers::sqrt2));
  return x * (g.node("Erf", {scaled}) + g.number(1)) * g.number(0.5F);
}

// max(x, 0) + log(1 + u) with u = exp(-|x|). ONNX has no log1p. Float32 keeps only four digits of
// log(1 + 0.001), a step dt of 0.001. With w = 1 + u as rounded,
//
//   u log(w) / (w - 1)
//
// keeps all digits, because the error of w cancels. The standard does not say how accurate a
// runtime's Softplus is.
Value softplus(const Value& x) {
  Graph& g = *x.graph;
  const auto one = g.number(1);
  const auto u = exp(g.node("Neg", {g.node("Abs", {x})}));
  const auto w = u + one;
  const auto rounded = w - one;
  const auto is_one = g.node("Equal", {rounded, g.number(0)});
  const auto divisor = g.node("Where", {is_one, one, rounded});
  const auto log1p = g.node("Where", {is_one, u, u * g.node("Log", {w}) / divisor});
  return g.node("Relu", {x}) + log1p;
}

Value as_float(const Value& x) { return x.graph->node("Cast", {x}, {{"to", kFloatType}}); }

Value matmul(const Value& a, const Value& b) { return a.graph->node("MatMul", {a, b}); }

Value reshape(const Value& x, const Value& shape) { return x.graph->node("Reshape", {x, shape}); }

Value transpose(const Value& x, const Ints& order) {
  return x.graph->node("Transpose", {x}, {{"perm", order}});
}

Value unsqueeze(const Value& x, const Ints& axes) {
  return x.graph->node("Unsqueeze", {x, x.graph->ints(axes)});
}

Value sum(const Value& x, int64_t axis) {
  return x.graph->node("ReduceSum", {x, x.graph->ints({axis})}, {{"keepdims", int64_t{0}}});
}

Value joined(const std::vector<Value>& parts) {
  return parts.front().graph->node("Concat", parts, {{"axis", int64_t{0}}});
}

Value gather(const Value& table, const Value& indices, int64_t axis) {
  return table.graph->node("Gather", {table, indices}, {{"axis", axis}});
}

Value slice(const Value& x, const Value& begin, const Value& end, int64_t axis) {
  return x.graph->node("Slice", {x, begin, end, x.graph->ints({axis})});
}

Value cumulative(const Value& x, const Sums& how) {
  return x.graph->node("CumSum", {x, x.graph->integer(how.axis)},
                       {{"exclusive", int64_t{how.exclusive}}, {"reverse", int64_t{how.reverse}}});
}

Value layer_norm(const Value& x, const Value& weight, const Value& bias, double eps) {
  return x.graph->node("LayerNormalization", {x, weight, bias},
                       {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(eps)}});
}

}  // namespace hydramix::onnx
