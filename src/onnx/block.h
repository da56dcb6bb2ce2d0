// SPDX-License-Identifier: Apache-2.0
// The block of hydramix/block.h around the mixers hydra, semiseparable, add and attention, as nodes
// of a graph.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "hydramix/block.h"
#include "onnx/scan.h"

namespace hydramix::onnx {

// Weights by their published names.
using Weights = std::map<std::string, torch::Tensor>;

// The batch that a graph runs on: B sequences of L' positions, some of which are padding.
struct Batch {
  Value mask;                         // (B, L', 1) float: 1 at tokens, 0 at padding
  std::optional<Tiling> tiling = {};  // for mixers that scan
};

// Whether a mixer is a scan, whose graph needs a tiling.
bool is_scan(const std::string& mixer);

// Throws UsageError, naming `origin` and what is supported, unless block() can export these
// options.
void check_exportable(const BlockOptions& options, const std::string& origin);

// u (B, L', d_model) -> (B, L', d_model). At padding u may be anything finite, and so is the
// result. `prefix` begins the names of the weights.
Value block(const Value& u, const BlockOptions& options, const Weights& weights,
            const std::string& prefix, const Batch& batch);

// x W^T + bias for W in `prefix`.weight, and bias where there is one.
Value linear(const Value& x, const Weights& weights, const std::string& prefix);

}  // namespace hydramix::onnx
