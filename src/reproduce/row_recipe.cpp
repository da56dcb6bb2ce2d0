// SPDX-License-Identifier: Apache-2.0
#include "reproduce/row_recipe.h"

#include <algorithm>
#include <cmath>

#include "base/spelling.h"
#include "config/recipe_texts.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

// How a model of the paper is made smaller.
struct Reduction {
  std::string base;         // the recipe that gives data and training
  double width;             // d_model in place of 768
  int64_t fewer_layers;     // layers are divided by this
  int64_t fewer_heads;      // and heads
  int64_t most_state;       // at most, of a scan
  int64_t most_table_rank;  // at most, of data-independent queries and keys
  int64_t most_rank;        // at most, of data-dependent ones
  int64_t most_filter;      // at most, inner width of networks that compute kernels or mix tokens
  int64_t longest;          // tokens of a sequence
};

const Reduction kTinyModels{"tiny", 64, 6, 3, 16, 16, 16, 32, 64};
const Reduction kSmallModels{"small/hydra", 256, 2, 3, 64, 64, 16, 128, 128};
constexpr double kPaperWidth = 768;
constexpr int64_t kPaperLongest = 128;  // tokens of a sequence in Table 2

const std::string kMixerRows = "mixers/", kMixerBase = "table3/hydra";

// The matrices of these mixers do not depend on the positions of the tokens, so that their models
// get learned positions, as Table 2's attention_dd, cauchy_dd and low_rank_dd do in the published
// configurations.
bool needs_positions(const std::string& mixer) {
  static const std::vector<std::string> names{"attention",        "attention_causal",
                                              "attention_dd",     "cauchy_dd",
                                              "linear_attention", "linear_attention_unnormalized",
                                              "low_rank_dd"};
  return std::find(names.begin(), names.end(), mixer) != names.end();
}

PretrainOptions base_options(const std::string& base) {
  PretrainOptions options;
  parse_yaml(options, recipe_texts().at(base), "recipes/" + base + ".yaml");
  return options;
}

bool is_mixer_row(const std::string& row) { return row.starts_with(kMixerRows); }

std::string base_of(const std::string& row) { return is_mixer_row(row) ? kMixerBase : row; }

// The row at the size of the paper.
PretrainOptions paper_options(const std::string& row) {
  HYDRAMIX_CHECK(recipe_texts().contains(base_of(row)), "reproduce: there is no recipe '", row,
                 "'.");
  auto options = base_options(base_of(row));
  if (!is_mixer_row(row)) return options;
  auto& block = options.model.block;
  block.mixer = row.substr(kMixerRows.size());
  if (mixer_info(block.mixer).causal) block.d_conv = 4;  // Mamba's, as in table3/mamba.yaml
  block.mixer_options.max_length = kPaperLongest;
  if (needs_positions(block.mixer)) options.model.positions = kPaperLongest;
  return options;
}

int64_t rounded(double value, int64_t multiple) {
  return multiple * std::max<int64_t>(1, std::llround(value / static_cast<double>(multiple)));
}

// The model with the same parts and proportions, and with the vocabulary and initial weights of the
// base. Dropout is left out: the reduced models see each document about once.
BertOptions reduced(const BertOptions& paper, const BertOptions& base, const Reduction& by) {
  BertOptions model = paper;
  model.vocab = base.vocab;
  model.initial_deviation = base.initial_deviation;
  model.dropout = model.output_dropout = model.mlp.dropout = 0;
  model.layers = paper.layers / by.fewer_layers;
  model.positions = std::min(paper.positions, by.longest);
  auto& block = model.block;
  const auto scale = by.width / kPaperWidth;
  block.d_model = rounded(scale * static_cast<double>(paper.block.d_model), 4);
  const auto heads = static_cast<double>(paper.block.heads().H);
  const auto d_inner = std::llround(block.expand * static_cast<double>(block.d_model));
  if (paper.block.headdim > 1) {
    auto fewer = std::max<int64_t>(1, std::llround(heads / static_cast<double>(by.fewer_heads)));
    // A dense matrix for each of four heads would be most of a tiny model.
    if (block.mixer == "dense" && by.most_state < paper.block.mixer_options.d_state) fewer = 1;
    while (d_inner % fewer != 0) --fewer;
    block.headdim = d_inner / fewer;
  }
  if (model.mlp.kind != "none")
    model.mlp.width = paper.mlp.width * block.d_model / paper.block.d_model;
  auto& mixer = block.mixer_options;
  mixer.dropout = 0;
  mixer.max_length = by.longest;
  mixer.d_state = std::min(mixer.d_state, by.most_state);
  mixer.qk_dim = std::min(
      mixer.qk_dim, mixer_info(block.mixer).sequence_aligned ? by.most_rank : by.most_table_rank);
  mixer.filter_width = std::min(mixer.filter_width, by.most_filter);
  mixer.token_hidden = std::min(mixer.token_hidden, by.most_filter);
  mixer.projected_length = std::min<int64_t>(mixer.projected_length, 32);
  return model;
}

// Assigns b's values that differ from a's, by path.
void collect_changes(const Json& a, const Json& b, const std::string& path,
                     std::vector<std::string>& changes) {
  for (const auto& [key, value] : b.items()) {
    if (a.at(key) == value) continue;
    const auto own = path.empty() ? key : path + "." + key;
    if (value.is_object())
      collect_changes(a.at(key), value, own, changes);
    else
      changes.push_back(own + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

}  // namespace

const std::vector<std::string>& scale_names() {
  static const std::vector<std::string> names{"tiny", "small", "paper"};
  return names;
}

std::string scale_name(Scale scale) { return scale_names().at(static_cast<std::size_t>(scale)); }

Scale scale_of(const std::string& name) {
  const auto found = std::find(scale_names().begin(), scale_names().end(), name);
  HYDRAMIX_CHECK_USAGE(found != scale_names().end(), "reproduce: there is no scale '", name,
                       "'; expected one of: ", join(scale_names()), ".",
                       did_you_mean(name, scale_names()));
  return static_cast<Scale>(found - scale_names().begin());
}

std::string mixer_of(const std::string& row) { return paper_options(row).model.block.mixer; }

RowRecipe recipe_of(const std::string& row, Scale scale, const RowData& data, int64_t seed) {
  RowRecipe recipe;
  const auto paper = paper_options(row);
  if (scale == Scale::kAsPublished) {
    recipe.base = base_of(row);
    recipe.options = paper;
  } else {
    const auto& by = scale == Scale::kTiny ? kTinyModels : kSmallModels;
    recipe.base = by.base;
    recipe.options = base_options(by.base);
    recipe.options.model = reduced(paper.model, recipe.options.model, by);
  }
  auto& options = recipe.options;
  if (scale == Scale::kTiny) {
    // Documents of half the usual length, many masks, and as many steps as Hydra and its kind need
    // to learn the facts that a document states: before that, all variants have nearly the same
    // loss. With larger initial weights they learn them sooner.
    options.model.initial_deviation = 0.1;
    options.data.language.shortest = 20;
    options.data.language.longest = 40;
    options.data.sequences.max_length = kTinyModels.longest;
    options.data.sequences.mask = 0.35;
    options.data.evaluation_documents = 500;
    options.train.steps = 1000;
    options.train.evaluate_every = 100;
    options.train.checkpoint_every = 250;
  }
  if (!data.train.empty()) {
    options.data.train = data.train;
    options.data.validation = data.validation;
    options.data.vocab = data.vocab;
    options.model.vocab = std::max(options.model.vocab, data.vocabulary);
  }
  options.train.seed = seed;
  options.train.keep = 1;
  validate(options);
  auto base = to_json(base_options(recipe.base)), own = to_json(options);
  base.erase("out");
  own.erase("out");
  collect_changes(base, own, "", recipe.changes);
  return recipe;
}

// The paper fine-tunes each model of Table 4 by an established recipe: its own for Hydra, M2's for
// M2 and the 24-layer Hydra, and BERT's for the others, which is our choice for MLP-Mixer and FNet.
// FNet has a rate of its own for CoLA.
std::string glue_recipe_of(const std::string& row, Scale scale) {
  if (scale == Scale::kTiny) return "tiny";
  if (scale == Scale::kSmall) return "small";
  if (row.starts_with("table2/")) return "table2";
  if (row == "table4/m2") return "m2";
  if (row == "table4/hydra_24") return "hydra_24";
  if (row == "table4/fnet") return "fnet";
  if (row == "table4/bert" || row.starts_with("table4/mlp_mixer")) return "train_bert";
  return "hydra";
}

int64_t glue_max_length(Scale scale) { return scale == Scale::kTiny ? kTinyModels.longest : 0; }

std::string pretrain_command_line(const RowRecipe& recipe) {
  std::string line = "hydramix pretrain recipes/" + recipe.base + ".yaml";
  for (const auto& change : recipe.changes) {
    const bool plain = change.find_first_of(" '\"()[]|*;&<>$") == std::string::npos;
    line += " --set " + (plain ? change : "'" + change + "'");
  }
  return line + " --out " + recipe.options.out;
}

}  // namespace hydramix
