// SPDX-License-Identifier: Apache-2.0
// The demo's trained models on documents of the built-in language that none of them has seen.
#pragma once

#include <vector>

#include "cli/demo_report.h"
#include "train/trained_model.h"

namespace hydramix {

// Adds the matrices of every layer and head for one short text, with its tokens along the axes.
void add_matrices(DemoModel& model, const TrainedModel& trained);

// Two examples of each kind of dependency, each the first of its kind in a short document, and the
// likeliest word of every model.
std::vector<DemoFill> fill_masks(const std::vector<TrainedModel>& models);

}  // namespace hydramix
