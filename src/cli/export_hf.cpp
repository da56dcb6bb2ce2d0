// SPDX-License-Identifier: Apache-2.0
// hydramix export-hf: a folder that Hugging Face's libraries open.
#include <algorithm>
#include <cstdio>

#include "base/formatted.h"
#include "base/json_reader.h"
#include "cli/commands.h"
#include "cli/output_path.h"
#include "hub/model_card.h"
#include "hub/python_files.h"
#include "hydramix/error.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ExportHfOptions {
  std::string model, out;
  std::string which = "last";
  bool overwrite = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{},
      "folder of a model, of a classifier, or of a run");
    v("out", self.out, Positional{}, Required{}, "folder to write");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("overwrite", self.overwrite, "write into a folder that is not empty, and replace its model");
  }
};

Json object_of(const fs::path& path, const FileKind& kind) {
  if (!fs::is_regular_file(path)) return Json::object();
  auto json = try_parse_json(read_file(path, kind));
  return json.is_object() ? json : Json::object();
}

std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? formatted("%.6g", value.get<double>()) : value.dump();
}

// The values at these keys, "data.train", under their names.
TrainingFacts::Rows rows_of(const Json& config,
                            const std::vector<std::pair<const char*, const char*>>& keys) {
  TrainingFacts::Rows rows;
  const auto flat = config.flatten();
  for (const auto& [name, key] : keys) {
    std::string place = "/" + std::string(key);
    std::replace(place.begin(), place.end(), '.', '/');
    const auto text = flat.contains(place) ? shown(flat[place]) : std::string();
    if (!text.empty()) rows.emplace_back(name, text);
  }
  return rows;
}

// The numbers of the last evaluation in metrics.jsonl.
TrainingFacts::Rows last_evaluation(const fs::path& run) {
  if (!fs::is_regular_file(run / "metrics.jsonl")) return {};
  const auto text = read_file(run / "metrics.jsonl", kMetricsFile);
  const std::string prefix = "evaluation/";
  const auto found = text.rfind("\"" + prefix);
  if (found == std::string::npos) return {};
  const auto before = text.rfind('\n', found), end = text.find('\n', found);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const auto line = try_parse_json(text.substr(begin, end - begin));
  TrainingFacts::Rows rows;
  if (!line.is_object()) return rows;
  for (const auto& [key, value] : line.items())
    if (key.starts_with(prefix) && value.is_number())
      rows.emplace_back(key.substr(prefix.size()), shown(value));
  return rows;
}

// The facts that a run recorded. `folder` is a run, or a model in one.
TrainingFacts facts_of(const fs::path& folder) {
  TrainingFacts facts{{}, {}, HYDRAMIX_VERSION, build_commit()};
  for (const auto& run : {folder, fs::absolute(folder).lexically_normal().parent_path()}) {
    const auto config = object_of(run / "config.json", kConfigFile);
    if (config.contains("task") && config.contains("recipe")) {
      facts.training = rows_of(config, {{"task", "task"},
                                        {"data", "data"},
                                        {"evaluated on", "dev"},
                                        {"started from", "model"},
                                        {"recipe", "recipe"},
                                        {"epochs", "epochs"},
                                        {"batch", "batch"},
                                        {"learning rate", "rate"},
                                        {"seed", "seed"}});
      const auto result = object_of(run / "result.json", kResultFile);
      if (result.contains("metrics") && result["metrics"].is_object())
        for (const auto& [key, value] : result["metrics"].items())
          if (value.is_number()) facts.metrics.emplace_back(key, shown(value));
      return facts;
    }
    if (config.contains("train") && config.contains("data")) {
      facts.training = rows_of(config, {{"data", "data.train"},
                                        {"evaluated on", "data.validation"},
                                        {"tokens of a sequence", "data.sequences.max_length"},
                                        {"share of tokens masked", "data.sequences.mask"},
                                        {"steps", "train.steps"},
                                        {"batch", "train.batch"},
                                        {"learning rate", "train.optimizer.rate"},
                                        {"seed", "train.seed"}});
      facts.metrics = last_evaluation(run);
      return facts;
    }
  }
  return facts;
}

int export_hf(const ExportHfOptions& o) {
  auto inputs = model_files(o.model);
  inputs.push_back(o.model);
  check_not_an_input("export-hf: OUT", o.out, inputs);
  check_new_folder("export-hf", o.out, o.overwrite);
  ExportedModel exported;
  std::optional<Tokenizer> tokenizer;
  if (const auto classifier = classifier_folder(o.model); !classifier.empty()) {
    HYDRAMIX_CHECK_USAGE(o.which == "last", o.model, ": is a classifier, which has no '", o.which,
                         "' weights; runs of pretraining do.");
    exported.classifier = load_classifier(classifier);
    tokenizer = load_model_tokenizer(classifier);
  } else {
    auto trained = open_trained_model(o.model, o.which);
    exported.masked_lm = trained.model;
    tokenizer = std::move(trained.tokenizer);
  }
  exported.tokenizer = &*tokenizer;
  check_exportable(exported.encoder(), o.model);
  const auto name = fs::absolute(o.out).lexically_normal();
  exported.card = model_card((name.has_filename() ? name : name.parent_path()).filename().string(),
                             exported, facts_of(o.model));
  export_folder(o.out, exported);
  std::printf("wrote %s, a folder for transformers, sentence-transformers and hydramix\n",
              o.out.c_str());
  return 0;
}

}  // namespace

Command export_hf_command() {
  return make_command<ExportHfOptions>(
      "export-hf", "write a model as a folder that Hugging Face's libraries open", export_hf,
      "Writes weights, config, tokenizer, the model in PyTorch and a model card. In Python:\n"
      "  AutoModelForMaskedLM.from_pretrained(OUT, trust_remote_code=True)\n"
      "  SentenceTransformer(OUT, trust_remote_code=True).encode(texts)\n"
      "The folder is a model folder of hydramix too, also after transformers saved it again.");
}

}  // namespace hydramix
