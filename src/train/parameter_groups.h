// SPDX-License-Identifier: Apache-2.0
// Groups of weights with their own rate and decay. A text "PATTERN rate=1e-3 decay=0.1" sets the
// peak rate and the decay of all weights with a name that matches the regular expression. Values
// that it omits are those of the other weights. A decay in a group also applies to norms and
// biases.
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
  std::vector<uint8_t> group_of_range;  // index of the group, for each range of the parameters
};

// `common` is the default; with it only the weights that decays() names decay. Throws UsageError
// for an invalid text and for a pattern that matches no weight.
ParameterGroups parameter_groups(const FlatParameters& parameters, ParameterGroup common,
                                 const std::vector<std::string>& texts);
// Throws the errors of parameter_groups() for this model, before a run creates its folder.
void check_parameter_groups(const torch::nn::Module& model, const std::vector<std::string>& texts);

}  // namespace hydramix
