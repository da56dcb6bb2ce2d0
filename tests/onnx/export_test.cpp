// SPDX-License-Identifier: Apache-2.0
// The structure of exported files, read by field numbers of onnx.proto.
#include "onnx/export.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "onnx/export_cases.h"
#include "onnx/model_file.h"
#include "onnx/wire_reader.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using onnx::ExportOptions;
using test::Message;

std::string exported(const TextModel& model, const ExportOptions& options = {}) {
  test::TemporaryFolder folder;
  const auto path = folder / "model.onnx";
  const auto result = onnx::export_model(path, model, options, "M", {{"version", "1"}});
  auto bytes = read_file(path);
  EXPECT_EQ(result.bytes, std::ssize(bytes));
  return bytes;
}

// "name: type [dimensions]" of a ValueInfoProto.
std::string port_text(const Message& port) {
  const auto tensor = port.message(2).message(1);
  std::string text = port.text(1) + ": " + std::to_string(tensor.integer(1)) + " [";
  for (const auto& dimension : tensor.message(2).messages(1))
    text += (text.ends_with("[") ? "" : ", ") +
            (dimension.texts(2).empty() ? std::to_string(dimension.integer(1)) : dimension.text(2));
  return text + "]";
}

std::vector<std::string> ports(const Message& graph, int field) {
  std::vector<std::string> texts;
  for (const auto& port : graph.messages(field)) texts.push_back(port_text(port));
  return texts;
}

std::map<std::string, std::string> metadata(const Message& model) {
  std::map<std::string, std::string> entries;
  for (const auto& entry : model.messages(14)) entries[entry.text(1)] = entry.text(2);
  return entries;
}

TEST(ExportOnnx, WritesOpset17WithFreeBatchAndLength) {
  const auto bytes = exported(*test::masked_lm_of(test::export_encoder("hydra")));
  const Message model(bytes);
  EXPECT_EQ(model.integer(1), 8);
  EXPECT_EQ(model.text(2), "hydramix");
  ASSERT_EQ(model.messages(8).size(), 1);
  EXPECT_EQ(model.message(8).integer(2), 17);
  const auto graph = model.message(7);
  const std::vector<std::string> inputs{"input_ids: 7 [batch_size, sequence_length]",
                                        "attention_mask: 7 [batch_size, sequence_length]",
                                        "token_type_ids: 7 [batch_size, sequence_length]"};
  EXPECT_EQ(ports(graph, 11), inputs);
  EXPECT_EQ(ports(graph, 12),
            std::vector<std::string>{"logits: 1 [batch_size, sequence_length, 25]"});
}

TEST(ExportOnnx, NamesTheOutputOfEachHead) {
  const std::map<std::string, std::string> expected{
      {"classes", "logits: 1 [batch_size, 3]"},
      {"score", "logits: 1 [batch_size, 1]"},
      {"tags", "logits: 1 [batch_size, sequence_length, 2]"},
      {"vectors", "sentence_embedding: 1 [batch_size, 16]"}};
  int64_t seen = 0;
  for (const auto& [name, model] : test::export_models()) {
    const auto found = expected.find(name);
    if (found == expected.end()) continue;
    ++seen;
    const auto bytes = exported(*model);
    EXPECT_EQ(ports(Message(bytes).message(7), 12), std::vector<std::string>{found->second});
    const auto vectors = exported(*model, {.head = "embedding"});
    EXPECT_EQ(ports(Message(vectors).message(7), 12),
              std::vector<std::string>{expected.at("vectors")});
  }
  EXPECT_EQ(seen, 4);
}

TEST(ExportOnnx, LeavesOutTypesThatTheModelDoesNotHave) {
  const auto bytes = exported(*test::masked_lm_of(test::unusual_encoder()));
  EXPECT_EQ(ports(Message(bytes).message(7), 11).size(), 2);
}

// Every value has one producer before its first use, and no node is a loop.
TEST(ExportOnnx, OrdersNodesAndHasNoLoop) {
  for (const auto& [name, model] : test::export_models()) {
    const auto bytes = exported(*model);
    const auto graph = Message(bytes).message(7);
    std::set<std::string> known;
    for (const auto& port : graph.messages(11)) known.insert(port.text(1));
    for (const auto& tensor : graph.messages(5))
      EXPECT_TRUE(known.insert(tensor.text(8)).second) << tensor.text(8);
    std::set<std::string> operators;
    for (const auto& node : graph.messages(1)) {
      operators.insert(node.text(4));
      for (const auto input : node.texts(1))
        EXPECT_TRUE(known.contains(std::string(input))) << name << ": " << input;
      EXPECT_TRUE(known.insert(node.text(2)).second) << name << ": " << node.text(2);
    }
    for (const auto& port : graph.messages(12)) EXPECT_TRUE(known.contains(port.text(1)));
    for (const char* loop : {"Loop", "Scan", "If"}) EXPECT_FALSE(operators.contains(loop));
  }
}

// ONNX Runtime 1.23 returns unset memory where a Pad with a negative number removes all of its
// input.
TEST(ExportOnnx, PadsNeverRemovePlaces) {
  for (const auto& [name, model] : test::export_models()) {
    const auto bytes = exported(*model);
    const auto graph = Message(bytes).message(7);
    std::map<std::string, std::vector<int64_t>> constants;
    for (const auto& tensor : graph.messages(5)) {
      if (tensor.integer(2) != 7) continue;  // int64
      const auto data = tensor.texts(9).at(0);
      auto& values = constants[tensor.text(8)];
      values.resize(data.size() / sizeof(int64_t));
      std::memcpy(values.data(), data.data(), data.size());
    }
    for (const auto& node : graph.messages(1)) {
      if (node.text(4) != "Pad") continue;
      const auto found = constants.find(std::string(node.texts(1).at(1)));
      if (found == constants.end()) continue;  // computed
      for (const int64_t pad : found->second) EXPECT_GE(pad, 0) << name << ": " << found->first;
    }
  }
}

TEST(ExportOnnx, StoresWeightsBitForBitAndTheWordTableOnce) {
  const auto model = test::masked_lm_of(test::export_encoder("hydra"));
  const auto bytes = exported(*model);
  std::map<std::string, torch::Tensor> stored;
  int64_t tables = 0;
  const auto graph = Message(bytes).message(7);
  for (const auto& tensor : graph.messages(5)) {
    const auto data = tensor.texts(9).at(0);
    const auto sizes = tensor.integers(1);
    tables += sizes == std::vector<int64_t>{25, 16} || sizes == std::vector<int64_t>{16, 25};
    if (tensor.integer(2) != 1) continue;
    stored[tensor.text(8)] =
        torch::from_blob(const_cast<char*>(data.data()), sizes, torch::kFloat32).clone();
  }
  EXPECT_EQ(tables, 1);
  const auto weights = named_weights(model->module());
  for (const char* name : {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.bias",
                           "bert.encoder.layer.1.layer.norm.weight"})
    EXPECT_TRUE(torch::equal(stored.at(name), weights.at(name))) << name;
  const std::string out = "bert.encoder.layer.0.layer.mixer.out_proj.weight";
  EXPECT_TRUE(torch::equal(stored.at(out), weights.at(out).t()));
}

TEST(ExportOnnx, RecordsLabelsAndTokenizer) {
  const auto model = test::classifier_of(test::export_encoder("hydra"), {.outputs = 2},
                                         {"sst2", {"bad", "\"good\""}, "labels", {0.25, 0.5}});
  const auto bytes = exported(*model);
  const auto entries = metadata(Message(bytes));
  EXPECT_EQ(entries.at("labels"), R"(["bad","\"good\""])");
  EXPECT_EQ(entries.at("thresholds"), "[0.25,0.5]");
  EXPECT_EQ(entries.at("task"), "sst2");
  EXPECT_EQ(entries.at("kind"), "labels");
  EXPECT_EQ(entries.at("mixer"), "hydra");
  EXPECT_EQ(entries.at("version"), "1");
  EXPECT_EQ(entries.at("tokenizer"), test::small_tokenizer().fingerprint());
}

TEST(ExportOnnx, RecordsThePoolingOfEmbeddings) {
  const auto model = test::masked_lm_of(test::export_encoder("hydra"));
  const auto mean = exported(*model, {.head = "embedding"});
  EXPECT_EQ(metadata(Message(mean)).at("pooling"), "mean");
  EXPECT_EQ(metadata(Message(mean)).at("normalized"), "false");
  const auto cls = exported(*model, {.head = "embedding", .pooling = "cls", .normalize = true});
  EXPECT_EQ(metadata(Message(cls)).at("pooling"), "cls");
  EXPECT_EQ(metadata(Message(cls)).at("normalized"), "true");
}

TEST(ExportOnnx, RefusesWhatItCannotExport) {
  test::TemporaryFolder folder;
  const auto path = folder / "model.onnx";
  const auto refused = [&](const BertOptions& options, const char* text) {
    EXPECT_THROW_WITH(onnx::export_model(path, *test::masked_lm_of(options), {}, "runs/x"),
                      UsageError, text);
  };
  refused(test::export_encoder("toeplitz_dd"),
          "runs/x: its mixer is toeplitz_dd, which has no ONNX graph; those of hydra, "
          "semiseparable, add and attention can be exported");
  auto gated = test::export_encoder("attention");
  gated.block.style = "gated";
  refused(gated, "its block has style gated; the styles mamba and plain");
  auto blocks = test::export_encoder("hydra");
  blocks.mlp = {.kind = "gelu", .width = 32, .blocks = 4};
  refused(blocks, "its MLP has 4 diagonal blocks");

  const auto vectors =
      test::classifier_of(test::export_encoder("hydra"), {.outputs = 0}, {"pairs", {}, "pairs"});
  EXPECT_THROW_WITH(onnx::export_model(path, *vectors, {.head = "logits"}, "runs/x"), UsageError,
                    "has no logits");
  const auto hydra = test::masked_lm_of(test::export_encoder("hydra"));
  EXPECT_THROW_WITH(onnx::export_model(path, *hydra, {.normalize = true}, "runs/x"), UsageError,
                    "--pooling and --normalize are of embeddings");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ExportOnnx, RefusesAFileThatProtocolBuffersCannotRead) {
  test::TemporaryFolder folder;
  const auto path = folder / "model.onnx";
  onnx::Graph graph;
  graph.weight("w", torch::ones({100}));
  EXPECT_THROW_WITH(onnx::write_model(path, graph, {}, 400), Error,
                    "an .onnx file may have 400. Export a smaller model");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_GT(onnx::write_model(path, graph, {}), 400);
}

}  // namespace
}  // namespace hydramix
