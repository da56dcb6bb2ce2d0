// SPDX-License-Identifier: Apache-2.0
#include "onnx/export.h"

#include <nlohmann/json.hpp>

#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "onnx/encoder.h"
#include "onnx/model_file.h"

namespace hydramix::onnx {
namespace {

const std::string kBatch = "batch_size", kLength = "sequence_length";

// Whether the model has another head than its vectors.
bool has_logits(const TextModel& model) {
  return model.masked_lm() || model.classifier().model->options().outputs > 0;
}

// The first `length` positions of x (B, L', C).
Value tokens_of(const Encoded& e) {
  return slice(e.hidden, e.length.graph->ints({0}), e.length, 1);
}

// (B, d_model): the output at the first token, or the mean over the tokens.
Value pooled(const Encoded& e, const std::string& pooling) {
  Graph& g = *e.hidden.graph;
  if (pooling == "cls") {
    const auto first = g.node("ArgMax", {e.mask}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
    return g.node("GatherND", {e.hidden, first}, {{"batch_dims", int64_t{1}}});
  }
  // A sequence without tokens has the vector 0, not 0 / 0.
  const auto count = g.node("Max", {sum(e.mask, 1), g.number(1)});
  return sum(e.hidden * e.mask, 1) / count;
}

// rows / |rows|, and zero where a row is zero
Value normalized(const Value& rows) {
  Graph& g = *rows.graph;
  const auto length = g.node("ReduceL2", {rows}, {{"axes", Ints{-1}}});
  return rows / g.node("Max", {length, g.number(1e-30F)});
}

// hidden (B, L, d_model) -> (B, L, vocab)
Value masked_lm_logits(const Encoded& e, const BertOptions& o, const Weights& weights) {
  Graph& g = *e.hidden.graph;
  const std::string head = "cls.predictions.", norm = head + "transform.LayerNorm";
  const auto x = layer_norm(gelu(linear(tokens_of(e), weights, head + "transform.dense")),
                            g.weight(norm + ".weight", weights.at(norm + ".weight")),
                            g.weight(norm + ".bias", weights.at(norm + ".bias")), 1e-12);
  // Gemm takes the table of the embedding as it is, so that the file holds it once.
  const auto bias = g.weight(head + "decoder.bias", weights.at(head + "decoder.bias"));
  const auto rows = reshape(x, g.ints({-1, o.block.d_model}));
  const auto logits = g.node("Gemm", {rows, e.word_table, bias}, {{"transB", int64_t{1}}});
  const auto batch = slice(g.node("Shape", {x}), g.ints({0}), g.ints({2}), 0);
  return reshape(logits, joined({batch, g.ints({o.vocab})}));
}

Value classifier_logits(const Encoded& e, const ClassifierOptions& o, const Weights& weights) {
  if (o.pooling == "tokens") return linear(tokens_of(e), weights, "classifier");
  const auto row = linear(pooled(e, o.pooling), weights, "bert.pooler.dense");
  return linear(row.graph->node("Tanh", {row}), weights, "classifier");
}

std::string embedding_pooling(const TextModel& model, const ExportOptions& options) {
  if (options.pooling != "auto") return options.pooling;
  const auto& classifier = model.classifier().model;  // a tagger has no pooling
  return classifier && classifier->options().pooling == "cls" ? "cls" : "mean";
}

void add_task(const ClassifierFolder& folder, std::map<std::string, std::string>& metadata) {
  metadata["task"] = folder.task;
  metadata["kind"] = folder.kind;
  if (!folder.labels.empty()) metadata["labels"] = nlohmann::json(folder.labels).dump();
  if (!folder.thresholds.empty()) metadata["thresholds"] = nlohmann::json(folder.thresholds).dump();
}

}  // namespace

Exported export_model(const std::filesystem::path& out, const TextModel& model,
                      const ExportOptions& options, const std::string& origin,
                      std::map<std::string, std::string> metadata) {
  const torch::NoGradGuard no_grad;
  const auto& o = model.encoder_options();
  check_exportable(o, origin);
  const bool logits = options.head == "auto" ? has_logits(model) : options.head == "logits";
  HYDRAMIX_CHECK_USAGE(!logits || has_logits(model), origin,
                       ": is a model of vectors, which has no logits. Give --head embedding.");
  HYDRAMIX_CHECK_USAGE(!logits || (options.pooling == "auto" && !options.normalize), origin,
                       ": --pooling and --normalize are of embeddings; this exports logits. Leave "
                       "them out, or give --head embedding.");

  Graph g;
  const auto weights = named_weights(model.module());
  const auto table = [&](const std::string& name) {
    return g.input({name, torch::kInt64, {kBatch, kLength}});
  };
  TokenInputs inputs{table("input_ids"), table("attention_mask"), {}};
  if (o.type_vocab > 1) inputs.type_ids = table("token_type_ids");
  const auto encoded = encode(inputs, o, weights);

  g.set_scope("head");
  metadata["mixer"] = o.block.mixer;
  metadata["tokenizer"] = model.tokenizer().fingerprint();
  if (model.max_length() > 0) metadata["max_length"] = std::to_string(model.max_length());
  if (!logits) {
    const auto pooling = embedding_pooling(model, options);
    metadata["pooling"] = pooling;
    metadata["normalized"] = options.normalize ? "true" : "false";
    const auto rows = pooled(encoded, pooling);
    g.output(options.normalize ? normalized(rows) : rows,
             {"sentence_embedding", torch::kFloat32, {kBatch, o.block.d_model}});
  } else if (model.masked_lm()) {
    g.output(masked_lm_logits(encoded, o, weights),
             {"logits", torch::kFloat32, {kBatch, kLength, o.vocab}});
  } else {
    const auto& head = model.classifier().model->options();
    add_task(model.classifier(), metadata);
    std::vector<Dimension> shape{kBatch, head.outputs};
    if (head.pooling == "tokens") shape.insert(shape.begin() + 1, kLength);
    g.output(classifier_logits(encoded, head, weights), {"logits", torch::kFloat32, shape});
  }
  return {write_model(out, g, metadata), g.outputs().front().name};
}

}  // namespace hydramix::onnx
