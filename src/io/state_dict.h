// SPDX-License-Identifier: Apache-2.0
// Which tensors of a pickled training state are the model's weights, and what they are called.
#pragma once

#include <string>
#include <vector>

#include "io/pickle.h"
#include "io/torch_archive.h"
#include "io/torch_tensors.h"

namespace hydramix::torch_archive {

struct NamedTensor {
  std::string name;
  pickle::Id id;
};

struct StateDict {
  std::vector<NamedTensor> tensors;  // by name, no two alike
  std::vector<std::string> notes;    // what was chosen, renamed or left out
};

StateDict find_tensors(const pickle::Document& document, const TensorReader& reader,
                       Selection selection, const std::string& origin);

}  // namespace hydramix::torch_archive
