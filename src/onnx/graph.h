// SPDX-License-Identifier: Apache-2.0
// An ONNX graph under construction. Values are handles with the arithmetic that the exporter needs,
// so that its code reads as the formulas do; every operation appends a node.
//
//   Value y = matmul(x, g.weight("out_proj.weight", w.t())) + g.number(1.0F);
//
// Operators are those of opset 17. Shapes may depend on the inputs: they are int64 values as well.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix::onnx {

class Graph;

// A tensor of the graph, by its name.
struct Value {
  Graph* graph = nullptr;
  std::string name = {};
};

using Ints = std::vector<int64_t>;

struct Attribute {
  std::string name;
  std::variant<int64_t, float, Ints> value;
};

struct Node {
  std::string op, name;
  std::vector<std::string> inputs;
  std::string output;
  std::vector<Attribute> attributes;
};

struct Initializer {
  std::string name;
  torch::Tensor data;  // contiguous, on the CPU: float32 or int64
};

using Dimension = std::variant<int64_t, std::string>;  // a size, or the name of a free one

// An input or output of the whole graph.
struct Port {
  std::string name;
  torch::ScalarType type;  // float32 or int64
  std::vector<Dimension> shape;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;  // values point to it
  Graph& operator=(const Graph&) = delete;

  Value input(const Port& port);
  // Gives `value` the name of the port.
  void output(const Value& value, const Port& port);

  // A learned tensor, stored as contiguous float32.
  Value weight(const std::string& name, const torch::Tensor& data);
  // Constants, each stored once.
  Value ints(const Ints& values);  // (n)
  Value integer(int64_t value);    // ()
  Value number(float value);       // ()

  Value node(const std::string& op, const std::vector<Value>& inputs,
             const std::vector<Attribute>& attributes = {});

  // The names of further nodes begin with this.
  void set_scope(const std::string& scope) { scope_ = scope; }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Initializer>& initializers() const { return initializers_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }

 private:
  Value constant(const std::string& name, const torch::Tensor& data);

  std::string scope_;
  std::vector<Node> nodes_;
  std::vector<Initializer> initializers_;
  std::map<std::string, std::size_t> counts_;  // nodes by scope and operator
  std::map<std::string, bool> constants_;      // names of those that are stored
  std::vector<Port> inputs_, outputs_;
};

// Elementwise, with ONNX's broadcasting.
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value exp(const Value& x);
Value silu(const Value& x);
Value gelu(const Value& x);      // by the error function
Value softplus(const Value& x);  // exact to float32 also where the result is small
Value as_float(const Value& x);  // of booleans and integers

Value matmul(const Value& a, const Value& b);
Value reshape(const Value& x, const Value& shape);
Value transpose(const Value& x, const Ints& order);
Value unsqueeze(const Value& x, const Ints& axes);
Value sum(const Value& x, int64_t axis);  // without that axis
// Concatenates int64 vectors.
Value joined(const std::vector<Value>& parts);
Value gather(const Value& table, const Value& indices, int64_t axis = 0);
// x from `begin` up to `end`, both (1) int64, along one axis.
Value slice(const Value& x, const Value& begin, const Value& end, int64_t axis);

// Sums of the entries before or at each position along the last axis of x, or along another one.
struct Sums {
  bool reverse = false;    // after or at it
  bool exclusive = false;  // without the entry itself
  int64_t axis = -1;
};
Value cumulative(const Value& x, const Sums& how = {});

// LayerNorm over the last axis.
Value layer_norm(const Value& x, const Value& weight, const Value& bias, double eps);

}  // namespace hydramix::onnx
