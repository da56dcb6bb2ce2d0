// SPDX-License-Identifier: Apache-2.0
// A golden case: a module's constructor, weights, inputs, outputs and gradients in one .safetensors
// file (docs/golden.md). Running it computes all outputs and gradients, in float64 unless told
// otherwise, and compares.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hydramix/tensor_file.h"
#include "hydramix/weights.h"

namespace hydramix {

struct TensorReport {
  std::string name;
  bool compared = false;  // the file holds a tensor of this name
  // max |ours - file| / max |file|, or max |ours| where the file's is all zero. NaN is infinite.
  double error = 0;
  bool off = false;
};

struct CaseReport {
  std::string name, module;
  std::vector<TensorReport> tensors;
  std::map<std::string, torch::Tensor> computed;

  bool passed() const;
};

// Throws Error when the file is not a case: unknown module, missing weights, shapes that do not
// fit. `where`: the dtype it is computed in, and the device.
CaseReport run_case(const TensorFile& file, double tolerance, const LoadOptions& load = {},
                    const torch::TensorOptions& where = torch::kFloat64);

}  // namespace hydramix
