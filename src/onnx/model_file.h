// SPDX-License-Identifier: Apache-2.0
// Writes a graph as an .onnx file (opset 17, IR version 8), atomically.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "onnx/graph.h"

namespace hydramix::onnx {

// Protocol Buffers refuse messages of 2 GiB and more.
inline constexpr int64_t kLargestFile = (int64_t{1} << 31) - 1;

// `metadata` becomes the model's metadata_props. Throws an Error, before writing, if the file would
// have more than `limit` bytes. Returns the size of the file.
int64_t write_model(const std::filesystem::path& path, const Graph& graph,
                    const std::map<std::string, std::string>& metadata,
                    int64_t limit = kLargestFile);

}  // namespace hydramix::onnx
