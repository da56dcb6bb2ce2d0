// SPDX-License-Identifier: Apache-2.0
// The complexity that the paper states for the matrices of a mixer.
#pragma once

#include "hydramix/mixer.h"

namespace hydramix {

// The column "Complexity" of table 1 of the paper, which has a row for each class of matrices;
// empty if it has none for the mixer's class.
std::string paper_cost(const MixerInfo& info);

}  // namespace hydramix
