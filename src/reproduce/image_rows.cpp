// SPDX-License-Identifier: Apache-2.0
#include "reproduce/image_rows.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/fnv.h"
#include "base/formatted.h"
#include "base/spelling.h"
#include "config/recipe_texts.h"
#include "hydramix/error.h"
#include "hydramix/safetensors.h"
#include "train/metrics.h"
#include "train/train_images.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string kImageRows = "table5/", kImageRowsEnd = "-vit-b";

// The assignments to the recipe.
std::vector<std::string> image_changes(const ReproducePlan& plan, int64_t seed) {
  std::vector<std::string> changes{"train.seed=" + std::to_string(seed)};
  // Half of the recipe's epochs: three seeds of five models within the time of a table.
  if (plan.scale == Scale::kTiny) changes.push_back("train.epochs=6");
  if (plan.scale == Scale::kTiny) changes.push_back("data.workers=1");
  if (!plan.data.images.empty()) changes.push_back("data.path=" + plan.data.images);
  if (plan.data.images_held_out > 0)
    changes.push_back(formatted("data.held_out=%g", plan.data.images_held_out));
  return changes;
}

ImageTrainOptions image_options(const ReproducePlan& plan, const std::string& row, int64_t seed) {
  const auto name = image_recipe_of(row, plan.scale);
  ImageTrainOptions options;
  parse_yaml(options, recipe_texts().at(name), "recipes/" + name + ".yaml");
  for (const auto& change : image_changes(plan, seed)) set(options, change);
  return options;
}

// With the contents of the images in place of their folder.
std::string image_digest(const ReproducePlan& plan, const std::string& recipe, int64_t seed) {
  auto changes = image_changes(plan, seed);
  std::erase_if(changes, [](const std::string& one) { return one.starts_with("data.path="); });
  return formatted("%016llx", fnv1a(recipe + join(changes, " ") + plan.data.images_fingerprint));
}

std::vector<std::string> image_words(const ReproducePlan& plan, const std::string& recipe,
                                     const std::string& row, int64_t seed) {
  std::vector<std::string> words{"train-images", recipe};
  for (const auto& change : image_changes(plan, seed)) words.insert(words.end(), {"--set", change});
  words.insert(words.end(), {"--out", (row_folder(plan, row, seed) / "images").string()});
  return words;
}

int64_t stored_parameters(const fs::path& weights) {
  int64_t count = 0;
  const auto file = safetensors::File::open(weights);
  for (const auto& tensor : file.tensors()) {
    int64_t size = 1;
    for (const auto side : tensor.shape) size *= side;
    count += size;
  }
  return count;
}

// Accuracies in percent, raw and of the averaged weights.
void add_accuracies(Json& result, const nlohmann::json& line) {
  for (const char* key : {"top1", "top5"}) {
    result[key] = 100 * line.at(std::string("evaluation/") + key).get<double>();
    if (line.contains("evaluation/average"))
      result[std::string(key) + "_ema"] = 100 * line["evaluation/average"].at(key).get<double>();
  }
}

// `tokens` are those of an image.
Json image_result(const fs::path& run, int64_t seed, int64_t tokens,
                  const ChildSettings& settings) {
  Json result{{"kind", "images"},
              {"version", settings.version},
              {"seed", seed},
              {"parameters", stored_parameters(run / "model" / "model.safetensors")}};
  double rates = 0, count = 0;
  Json curve = Json::array();
  read_metrics(
      run / "metrics.jsonl",
      [&](const std::string&, const nlohmann::json& line) {
        result["steps"] = line["step"];
        if (line.contains("evaluation/top1")) {
          add_accuracies(result, line);
          curve.push_back({line["step"], line.at("evaluation/loss")});
        }
        if (line.contains("tokens_per_second") && line["tokens_per_second"].is_number()) {
          rates += line["tokens_per_second"].get<double>();
          ++count;
        }
      },
      [](const std::string&) {});
  HYDRAMIX_CHECK(result.contains("top1"), run.string(),
                 ": the run has ended without an evaluation.");
  result["tokens_per_second"] = count > 0 ? rates / count : 0;
  result["images_per_second"] = count > 0 ? rates / count / static_cast<double>(tokens) : 0;
  result["curve"] = curve;
  return result;
}

}  // namespace

bool is_image_row(const std::string& row) { return row.starts_with(kImageRows); }

std::string image_recipe_of(const std::string& row, Scale scale) {
  if (scale == Scale::kAsPublished) return row;
  auto model = row.substr(kImageRows.size());  // "hydra-vit-b", "vit-b"
  model = model.ends_with(kImageRowsEnd) ? model.substr(0, model.size() - kImageRowsEnd.size())
                                         : std::string("vit");
  if (scale == Scale::kSmall) return "images/small-" + model;
  return model == "hydra" ? "images/tiny" : "images/tiny-" + model;
}

std::string image_command_line(const ReproducePlan& plan, const std::string& row, int64_t seed) {
  const auto recipe = "recipes/" + image_recipe_of(row, plan.scale) + ".yaml";
  return "hydramix " + join(image_words(plan, recipe, row, seed), " ");
}

Stage image_stage(const ReproducePlan& plan, const ChildSettings& settings, const std::string& row,
                  int64_t seed) {
  const auto folder = row_folder(plan, row, seed);
  const auto recipe = recipe_texts().at(image_recipe_of(row, plan.scale));
  const auto words = image_words(plan, (folder / "recipe.yaml").string(), row, seed);
  const auto log = folder / "images.log";
  Stage stage;
  stage.name = formatted("%s seed %lld: train", row, seed);
  stage.result = folder / "images.json";
  stage.recipe = image_digest(plan, recipe, seed);
  stage.start = [=](int64_t slot) {
    fs::create_directories(folder);
    write_file(folder / "recipe.yaml", recipe);
    return start_in_slot(settings, slot, words, log);
  };
  const auto options = image_options(plan, row, seed);
  const int64_t images =
      plan.data.images.empty() ? options.data.drawn.train : plan.data.training_images;
  const auto steps = static_cast<double>(steps_of(options.train, images));
  stage.progress = [=] {
    return static_cast<double>(last_step(folder / "images" / "metrics.jsonl")) / steps;
  };
  stage.read = [=, tokens = options.model.length()] {
    return image_result(folder / "images", seed, tokens, settings);
  };
  stage.log = log.string();
  return stage;
}

}  // namespace hydramix
