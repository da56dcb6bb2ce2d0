// SPDX-License-Identifier: Apache-2.0
// Models to export, of every mixer and head, with weights large enough that a mistake shows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/text_model.h"
#include "support/classifiers.h"

namespace hydramix::test {

struct ExportModel {
  std::string name;
  std::shared_ptr<const TextModel> model;
};

inline BertOptions export_encoder(const std::string& mixer) {
  auto options = tiny_bert(mixer);
  options.vocab = 25;
  options.initial_deviation = 0.3;
  return options;
}

// Draws what initialisation leaves constant, so that no weight is neutral.
inline void draw_all(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const auto& name = item.key();
    auto weight = item.value();
    if (name.ends_with("A_log") || name.ends_with("init_states") || name.ends_with("bias"))
      weight.add_(torch::randn_like(weight), 0.3);
    else if (name.ends_with("norm.weight") || name.ends_with("LayerNorm.weight") ||
             name.ends_with(".D"))
      weight.mul_(torch::rand_like(weight) + 0.5);
  }
}

inline std::shared_ptr<const TextModel> masked_lm_of(const BertOptions& options) {
  torch::manual_seed(3);
  BertForMaskedLM model(options);
  draw_all(*model);
  return std::make_shared<const TextModel>(model, small_tokenizer(), TextModelOptions{}, 512);
}

inline std::shared_ptr<const TextModel> classifier_of(const BertOptions& encoder,
                                                      const ClassifierOptions& head,
                                                      const ClassifierTask& task) {
  torch::manual_seed(4);
  ClassifierFolder folder{task, SequenceClassifier(encoder, head)};
  draw_all(*folder.model);
  return std::make_shared<const TextModel>(folder, small_tokenizer(), TextModelOptions{}, 512);
}

// All options of the block and the layers away from their defaults.
inline BertOptions unusual_encoder() {
  auto options = export_encoder("hydra");
  options.norm = "pre";
  options.positions = 5000;
  options.type_vocab = 1;
  options.mlp = {.kind = "glu", .width = 24};
  options.block.bias = true;
  options.block.d_conv = 4;
  options.block.mixer_options.groups = 2;
  options.block.mixer_options.learn_initial_states = true;
  options.block.mixer_options.dt_limit_low = 0.01;
  options.block.mixer_options.dt_limit_high = 0.2;
  return options;
}

// As BERT's.
inline BertOptions transformer_encoder() {
  auto options = export_encoder("attention");
  options.positions = 5000;
  options.mlp = {.kind = "gelu", .width = 24};
  options.block.style = "plain";
  options.block.expand = 1;
  options.block.bias = true;
  return options;
}

// Steps dt from 1e-13 to 60 and decays up to e^-9000: prefix sums would overflow or cancel.
inline std::shared_ptr<const TextModel> extreme_masked_lm() {
  torch::manual_seed(5);
  BertForMaskedLM model(export_encoder("hydra"));
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    if (item.key().ends_with("dt_bias"))
      item.value().copy_(torch::tensor({-30.0, -2.0, 5.0, 60.0}));
    if (item.key().ends_with("A_log")) item.value().copy_(torch::tensor({5.0, -9.0, 0.0, 5.0}));
  }
  return std::make_shared<const TextModel>(model, small_tokenizer(), TextModelOptions{}, 512);
}

inline std::vector<ExportModel> export_models() {
  const auto hydra = export_encoder("hydra");
  std::vector<ExportModel> models;
  for (const char* mixer : {"hydra", "semiseparable", "add", "attention"})
    models.push_back({mixer, masked_lm_of(export_encoder(mixer))});
  models.push_back({"unusual", masked_lm_of(unusual_encoder())});
  models.push_back({"transformer", masked_lm_of(transformer_encoder())});
  models.push_back({"extreme", extreme_masked_lm()});
  models.push_back({"classes", classifier_of(hydra, {.outputs = 3, .pooling = "cls"},
                                             {"rte", {"yes", "no", "maybe"}, "classes"})});
  models.push_back(
      {"score", classifier_of(hydra, {.outputs = 1, .pooling = "mean"}, {"stsb", {}, "score"})});
  models.push_back({"tags", classifier_of(hydra, {.outputs = 2, .pooling = "tokens"},
                                          {"names", {"O", "B"}, "tokens"})});
  models.push_back(
      {"vectors", classifier_of(hydra, {.outputs = 0, .pooling = "mean"}, {"pairs", {}, "pairs"})});
  return models;
}

}  // namespace hydramix::test
