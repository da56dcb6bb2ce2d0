// SPDX-License-Identifier: Apache-2.0
// The messages and field numbers of onnx.proto that a model needs. Weights go to the file from
// where they are: no copy of the model is made.
#include "onnx/model_file.h"

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "io/protobuf.h"

namespace hydramix::onnx {
namespace {

using protobuf::bytes_field;
using protobuf::bytes_head;
using protobuf::float_field;
using protobuf::integer_field;

constexpr int64_t kIrVersion = 8, kOpset = 17;

// TensorProto.DataType
int64_t type_number(torch::ScalarType type) { return type == torch::kInt64 ? 7 : 1; }

// AttributeProto: name = 1, f = 2, i = 3, ints = 8, type = 20 (FLOAT = 1, INT = 2, INTS = 7)
std::string attribute_message(const Attribute& attribute) {
  std::string message = bytes_field(1, attribute.name);
  if (const auto* number = std::get_if<float>(&attribute.value))
    return message + float_field(2, *number) + integer_field(20, 1);
  if (const auto* integer = std::get_if<int64_t>(&attribute.value))
    return message + integer_field(3, *integer) + integer_field(20, 2);
  for (const int64_t entry : std::get<Ints>(attribute.value)) message += integer_field(8, entry);
  return message + integer_field(20, 7);
}

// NodeProto: input = 1, output = 2, name = 3, op_type = 4, attribute = 5
std::string node_message(const Node& node) {
  std::string message;
  for (const auto& input : node.inputs) message += bytes_field(1, input);
  message += bytes_field(2, node.output) + bytes_field(3, node.name) + bytes_field(4, node.op);
  for (const auto& attribute : node.attributes)
    message += bytes_field(5, attribute_message(attribute));
  return message;
}

// ValueInfoProto: name = 1, type = 2; TypeProto: tensor_type = 1; Tensor: elem_type = 1, shape = 2;
// TensorShapeProto: dim = 1; Dimension: dim_value = 1, dim_param = 2
std::string port_message(const Port& port) {
  std::string shape;
  for (const auto& dimension : port.shape) {
    const auto* size = std::get_if<int64_t>(&dimension);
    shape += bytes_field(1, size != nullptr ? integer_field(1, *size)
                                            : bytes_field(2, std::get<std::string>(dimension)));
  }
  const auto tensor = integer_field(1, type_number(port.type)) + bytes_field(2, shape);
  return bytes_field(1, port.name) + bytes_field(2, bytes_field(1, tensor));
}

// TensorProto without the data: dims = 1, data_type = 2, name = 8, raw_data = 9
std::string tensor_start(const Initializer& initializer) {
  std::string message;
  for (const int64_t size : initializer.data.sizes()) message += integer_field(1, size);
  return message + integer_field(2, type_number(initializer.data.scalar_type())) +
         bytes_field(8, initializer.name) + bytes_head(9, initializer.data.nbytes());
}

// StringStringEntryProto: key = 1, value = 2
std::string entry_message(const std::string& key, const std::string& value) {
  return bytes_field(1, key) + bytes_field(2, value);
}

}  // namespace

int64_t write_model(const std::filesystem::path& path, const Graph& graph,
                    const std::map<std::string, std::string>& metadata, int64_t limit) {
  // GraphProto: node = 1, name = 2, initializer = 5, input = 11, output = 12
  std::string structure = bytes_field(2, "hydramix");
  for (const auto& node : graph.nodes()) structure += bytes_field(1, node_message(node));
  for (const auto& port : graph.inputs()) structure += bytes_field(11, port_message(port));
  for (const auto& port : graph.outputs()) structure += bytes_field(12, port_message(port));
  std::vector<std::string> starts;  // of the initializers, each before its data
  std::size_t size = structure.size();
  for (const auto& initializer : graph.initializers()) {
    const auto start = tensor_start(initializer);
    starts.push_back(bytes_head(5, start.size() + initializer.data.nbytes()) + start);
    size += starts.back().size() + initializer.data.nbytes();
  }

  // Fields of ModelProto:
  //   1 ir_version, 2 producer_name, 3 producer_version, 7 graph,
  //   8 opset_import (2 version; the domain is the default one), 14 metadata_props
  std::string head = integer_field(1, kIrVersion) + bytes_field(2, "hydramix") +
                     bytes_field(8, integer_field(2, kOpset));
  for (const auto& [key, value] : metadata) head += bytes_field(14, entry_message(key, value));
  head += bytes_head(7, size);
  const auto whole = static_cast<int64_t>(head.size() + size);
  HYDRAMIX_CHECK(whole <= limit, path.string(), ": the model would have ", whole,
                 " bytes; an .onnx file may have ", limit,
                 ". Export a smaller model, or run this one with hydramix.");

  AtomicFile file(path);
  file.write(head);
  file.write(structure);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    file.write(starts[i]);
    const auto& data = graph.initializers()[i].data;
    file.write(data.data_ptr(), data.nbytes());
  }
  file.commit();
  return whole;
}

}  // namespace hydramix::onnx
