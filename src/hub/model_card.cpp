// SPDX-License-Identifier: Apache-2.0
#include "hub/model_card.h"

#include "base/formatted.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

struct Use {
  const char *tag, *code;
};

// The tag that tells transformers what such a model does, and two lines of code that use it.
Use use_of(const ExportedModel& model) {
  const std::string kind = model.classifier ? model.classifier->kind : "";
  if (kind.empty())
    return {"fill-mask",
            "fill = pipeline(\"fill-mask\", model=folder, trust_remote_code=True)\n"
            "print(fill(\"the [MASK] barks .\"))\n"};
  if (kind == "tokens")
    return {"token-classification",
            "tag = pipeline(\"token-classification\", model=folder, trust_remote_code=True)\n"
            "print(tag(\"a text\"))\n"};
  if (kind == "pairs")
    return {"sentence-similarity",
            "features = pipeline(\"feature-extraction\", model=folder, trust_remote_code=True)\n"
            "print(features(\"a text\"))\n"};
  return {"text-classification",
          "classify = pipeline(\"text-classification\", model=folder, trust_remote_code=True)\n"
          "print(classify(\"a text\"))\n"};
}

// Text of a user in a cell of a table.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result;
}

std::string table(const char* head, const TrainingFacts::Rows& rows) {
  std::string text = concat("| ", head, " | |\n| --- | --- |\n");
  for (const auto& [name, value] : rows)
    text += concat("| ", cell(name), " | ", cell(value), " |\n");
  return text;
}

TrainingFacts::Rows sizes(const ExportedModel& model) {
  const auto& options = model.encoder();
  const torch::nn::Module& module =
      model.classifier ? static_cast<const torch::nn::Module&>(*model.classifier->model)
                       : *model.masked_lm;
  int64_t parameters = 0;
  for (const auto& parameter : module.parameters()) parameters += parameter.numel();
  const int64_t longest = longest_sequence(options);
  TrainingFacts::Rows rows{
      {"mixer", options.block.mixer},
      {"parameters", formatted("%.1f M", static_cast<double>(parameters) / 1e6)},
      {"layers", concat(options.layers)},
      {"hidden size", concat(options.block.d_model)},
      {"vocabulary", concat(options.vocab)},
      {"longest text", longest == 0 ? "any number of tokens" : concat(longest, " tokens")}};
  if (model.classifier) {
    rows.emplace_back("task", model.classifier->task);
    std::string labels;
    for (const auto& label : model.classifier->labels)
      labels += (labels.empty() ? "" : ", ") + label;
    if (!labels.empty()) rows.emplace_back("labels", labels);
  }
  return rows;
}

}  // namespace

std::string model_card(const std::string& name, const ExportedModel& model,
                       const TrainingFacts& facts) {
  const Use use = use_of(model);
  std::string text = concat("---\nlibrary_name: transformers\npipeline_tag: ", use.tag,
                            "\ntags:\n- hydramix\n- ", model.encoder().block.mixer,
                            "\n- sentence-transformers\n---\n\n# ", cell(name), "\n\n");
  text +=
      "An encoder trained with HydraMix, after *Hydra: Bidirectional State Space Models "
      "Through Generalized Matrix Mixers* (Hwang, Lahoti, Dao & Gu 2024).\n\n";
  text +=
      table("model", sizes(model)) + "\n## Use\n\n```python\nfrom transformers import pipeline\n";
  text += use.code;
  text +=
      "```\n\nVectors, as `hydramix embed` gives them:\n\n```python\n"
      "from sentence_transformers import SentenceTransformer\n"
      "vectors = SentenceTransformer(folder, trust_remote_code=True).encode([\"a text\"])\n```\n\n"
      "The folder is a model folder of `hydramix` too. `modeling_hydramix.py` computes in PyTorch; "
      "with the Python package `hydramix` installed, its kernels compute the blocks.\n\n";
  text += "## Training\n\n";
  text += facts.training.empty() ? "The model came without the folder of its training run.\n"
                                 : table("training", facts.training);
  if (!facts.metrics.empty()) text += "\n" + table("evaluation", facts.metrics);
  text += concat("\nExported by hydramix ", facts.version);
  if (!facts.commit.empty()) text += concat(", commit ", facts.commit);
  return text + ".\n";
}

}  // namespace hydramix
