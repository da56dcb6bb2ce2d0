// SPDX-License-Identifier: Apache-2.0
// Weights that an optimizer treats alike. A text "PATTERN rate=1e-3 decay=0.1" gives the weights in
// whose name the regular expression is found a peak rate and a decay of their own; what it does not
// state is as for all others. A stated decay holds for every weight of the group, norms and biases
// too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/flat_parameters.h"

namespace hydramix {

struct ParameterGroup {
  double rate, decay;  // at the peak of the schedule
  bool operator==(const ParameterGroup&) const = default;
};

struct ParameterGroups {
  std::vector<ParameterGroup> groups;   // no two alike
  std::vector<uint8_t> group_of_range;  // for each range of the parameters the number of its group
};

// `common` is what weights have by default; of them only those that decays() names decay.
// UsageError for a text that cannot be read, and for a pattern that fits no weight.
ParameterGroups parameter_groups(const FlatParameters& parameters, ParameterGroup common,
                                 const std::vector<std::string>& texts);
// Throws what parameter_groups() would for this model, before a run has a folder.
void check_parameter_groups(const torch::nn::Module& model, const std::vector<std::string>& texts);

}  // namespace hydramix
