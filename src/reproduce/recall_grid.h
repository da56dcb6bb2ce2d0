// SPDX-License-Identifier: Apache-2.0
// The runs of `reproduce recall`: mixers, state sizes, lengths, learning rates and seeds. The state
// is N numbers per channel of a scan (8-256), or the rank of low-rank attention, which keeps as
// many. Softmax attention has no state: it keeps all tokens, and has one result for each length.
//
// Every run is an ordinary recipe:
//   hydramix train-recall recipes/recall/tiny.yaml --set model.block.mixer=s6 ...
#pragma once

#include <string>
#include <vector>

#include "reproduce/row_recipe.h"
#include "train/recall.h"

namespace hydramix {

struct RecallMixer {
  std::string mixer;  // its registered name
  std::string label;  // "SSD (Mamba-2)"
  bool causal;
  bool has_state;
};

// The mixers in the order of tables and legends.
const std::vector<RecallMixer>& recall_mixers();

struct RecallCell {
  std::string mixer;
  int64_t state = 0;  // 0: none
  int64_t length = 0;
  double rate = 0;
  int64_t seed = 1;
};

// "hydra/state-32/length-64/rate-0.003/seed-1": a path below the folder of all runs.
std::string recall_cell_name(const RecallCell& cell);

// All runs of a scale with seeds 1 .. seeds.
std::vector<RecallCell> recall_cells(Scale scale, int64_t seeds);

struct RecallRecipe {
  std::string base;                  // "recall/tiny"
  RecallTrainOptions options;        // complete
  std::vector<std::string> changes;  // "recall.length=128": what differs from the base
};
RecallRecipe recall_recipe(const RecallCell& cell, Scale scale);

// "hydramix train-recall recipes/recall/tiny.yaml --set ... --out OUT"
std::string train_recall_command_line(const RecallRecipe& recipe);

}  // namespace hydramix
