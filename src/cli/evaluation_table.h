// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace hydramix {

// An evaluation of masked-language modelling as a table on stdout: loss, accuracy, and accuracy for
// each kind of dependency beside its expected ceiling, if the data has kinds.
void print_evaluation(const nlohmann::ordered_json& evaluation);

}  // namespace hydramix
