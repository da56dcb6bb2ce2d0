// SPDX-License-Identifier: Apache-2.0
#include "reproduce/recall_grid.h"

#include <algorithm>

#include "base/formatted.h"
#include "config/recipe_texts.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

struct RecallLength {
  int64_t length, pairs;
  int64_t batch, steps;
};

struct RecallGrid {
  std::string base;
  std::vector<int64_t> states;
  std::vector<RecallLength> lengths;
  // The best of the rates counts, as in Zoology.
  std::vector<double> rates;
};

// Zoology, figure 2: HazyResearch/zoology, iclr24_zoology_figure2/configs.py. Lengths, pairs,
// batches, 64 epochs of 100 000 sequences, and rates 10^-4 .. 10^-2 are those of the file; it has
// length 512 with 64 pairs in a comment, and the paper in its figure.
const RecallGrid& recall_grid(Scale scale) {
  static const RecallGrid tiny{
      "recall/tiny", {8, 16, 32}, {{32, 4, 64, 600}, {64, 8, 32, 600}}, {4e-3}};
  static const RecallGrid small{"recall/small",
                                {8, 32, 128},
                                {{64, 8, 128, 3000}, {128, 16, 128, 3000}, {256, 32, 64, 4000}},
                                {1e-3, 3e-3}};
  static const RecallGrid paper{
      "recall/paper",
      {8, 16, 32, 64, 128, 256},
      {{64, 4, 512, 12500}, {128, 8, 512, 12500}, {256, 16, 256, 25000}, {512, 64, 128, 50000}},
      {1e-4, 4.64e-4, 2.15e-3, 1e-2}};
  return scale == Scale::kTiny ? tiny : scale == Scale::kSmall ? small : paper;
}

const RecallMixer& recall_mixer(const std::string& name) {
  const auto& all = recall_mixers();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const RecallMixer& mixer) { return mixer.mixer == name; });
  HYDRAMIX_CHECK(found != all.end(), "recall: '", name, "' is not one of its mixers.");
  return *found;
}

}  // namespace

const std::vector<RecallMixer>& recall_mixers() {
  static const std::vector<RecallMixer> mixers{
      {"hydra", "Hydra", false, true},
      {"semiseparable", "SSD (Mamba-2)", true, true},
      {"s6", "S6 (Mamba)", true, true},
      {"low_rank_dd", "Low-rank", false, true},
      {"attention_causal", "Attention, causal", true, false},
      {"attention", "Attention", false, false}};
  return mixers;
}

std::string recall_cell_name(const RecallCell& cell) {
  const auto state = cell.state > 0 ? formatted("state-%lld/", cell.state) : std::string();
  return formatted("%s/%slength-%lld/rate-%g/seed-%lld", cell.mixer, state, cell.length, cell.rate,
                   cell.seed);
}

std::vector<RecallCell> recall_cells(Scale scale, int64_t seeds) {
  const auto& grid = recall_grid(scale);
  std::vector<RecallCell> cells;
  for (const auto& length : grid.lengths)
    for (const auto& mixer : recall_mixers())
      for (const int64_t state : mixer.has_state ? grid.states : std::vector<int64_t>{0})
        for (const double rate : grid.rates)
          for (int64_t seed = 1; seed <= seeds; ++seed)
            cells.push_back({mixer.mixer, state, length.length, rate, seed});
  return cells;
}

RecallRecipe recall_recipe(const RecallCell& cell, Scale scale) {
  const auto& grid = recall_grid(scale);
  const auto length =
      std::find_if(grid.lengths.begin(), grid.lengths.end(),
                   [&](const RecallLength& one) { return one.length == cell.length; });
  HYDRAMIX_CHECK(length != grid.lengths.end(), "recall: no runs of length ", cell.length, " at ",
                 scale_name(scale), " scale.");
  std::vector<std::string> assignments{
      formatted("model.block.mixer=%s", cell.mixer),
      formatted("recall.length=%lld", length->length),
      formatted("recall.pairs=%lld", length->pairs), formatted("train.batch=%lld", length->batch),
      formatted("train.steps=%lld", length->steps),
      formatted("train.evaluate_every=%lld", std::max<int64_t>(length->steps / 4, 1)),
      formatted("train.checkpoint_every=%lld", std::max<int64_t>(length->steps / 4, 1)),
      formatted("train.optimizer.rate=%g", cell.rate), formatted("train.seed=%lld", cell.seed),
      // The scale of low-rank attention is that of the length.
      formatted("model.block.mixer_options.max_length=%lld", length->length)};
  if (recall_mixer(cell.mixer).has_state)
    for (const char* option : {"d_state", "qk_dim"})
      assignments.push_back(formatted("model.block.mixer_options.%s=%lld", option, cell.state));
  if (cell.mixer == "s6") assignments.push_back("model.block.headdim=1");  // as in Mamba

  RecallRecipe recipe;
  recipe.base = grid.base;
  parse_yaml(recipe.options, recipe_texts().at(grid.base), "recipes/" + grid.base + ".yaml");
  for (const auto& assignment : assignments) {
    const auto before = to_json(recipe.options);
    set(recipe.options, assignment);
    if (to_json(recipe.options) != before) recipe.changes.push_back(assignment);
  }
  validate(recipe.options);
  return recipe;
}

std::string train_recall_command_line(const RecallRecipe& recipe) {
  std::string line = "hydramix train-recall recipes/" + recipe.base + ".yaml";
  for (const auto& change : recipe.changes) line += " --set " + change;
  return line + " --out " + recipe.options.out;
}

}  // namespace hydramix
