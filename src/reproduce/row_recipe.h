// SPDX-License-Identifier: Apache-2.0
// The recipe of a row: a file of recipes/ and assignments to its options, so that the row also runs
// alone:  hydramix pretrain recipes/tiny.yaml --set model.block.mixer=add ...
//
// At paper scale a row is a recipe of the paper's tables. At the other scales the same model is
// made narrower and shallower by one rule for all rows, and is trained as recipes/tiny.yaml or
// recipes/small/hydra.yaml say, so that the rows of a table differ only in the model.
#pragma once

#include <string>
#include <vector>

#include "train/pretrain.h"

namespace hydramix {

enum class Scale { kTiny, kSmall, kAsPublished };

// "tiny", "small", "paper"
const std::vector<std::string>& scale_names();
std::string scale_name(Scale scale);
Scale scale_of(const std::string& name);

// Folders of the data that rows read. Empty: the built-in language.
struct RowData {
  std::string train, validation, vocab;  // token shards and their vocabulary
  int64_t vocabulary = 0;                // its number of tokens
};

struct RowRecipe {
  std::string base;                  // "tiny", "table2/toeplitz_dd"
  PretrainOptions options;           // complete
  std::vector<std::string> changes;  // "model.block.mixer=add": what differs from the base
};

// `row` names a recipe of the paper's tables ("table3/add") or a mixer ("mixers/butterfly"), which
// takes the place of Hydra's in recipes/table3/hydra.yaml.
RowRecipe recipe_of(const std::string& row, Scale scale, const RowData& data, int64_t seed);

// The recipe of fine-tuning on GLUE that belongs to the row.
std::string glue_recipe_of(const std::string& row, Scale scale);
// The longest text of GLUE, in tokens, that models of the scale read; 0: as the recipe says.
int64_t glue_max_length(Scale scale);

// The mixer of a row.
std::string mixer_of(const std::string& row);

// "hydramix pretrain recipes/tiny.yaml --set a=b --out OUT"
std::string pretrain_command_line(const RowRecipe& recipe);

}  // namespace hydramix
