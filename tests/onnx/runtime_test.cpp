// SPDX-License-Identifier: Apache-2.0
// Exported models in other programs: npm's onnxruntime-node (tests/onnx/compare.js) and, where
// Python has them, onnx's checker and onnxruntime (tests/python/onnx_check.py). Both get a folder
// of models, inputs and our own outputs. Each of ours is computed for a sequence alone, so that
// padding cannot be wrong in the same way on both sides.
//
// With HYDRAMIX_ONNX_CASES=FOLDER the folder is kept, for another machine.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/atomic_file.h"
#include "hydramix/text_embedder.h"
#include "models/pooling.h"
#include "onnx/export.h"
#include "onnx/export_cases.h"
#include "support/command.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWords = 25;

// A batch of sequences of these lengths, with `before` places of padding before the second.
struct TokenBatch {
  torch::Tensor ids, mask, types;  // (B, L) int64
};

TokenBatch token_batch(int64_t length, int64_t before, bool typed) {
  const std::vector<int64_t> lengths{length, std::max<int64_t>(1, length - before - length / 3), 1};
  const auto B = static_cast<int64_t>(lengths.size());
  TokenBatch batch{torch::randint(kWords, {B, length}, torch::kInt64),
                   torch::zeros({B, length}, torch::kInt64),
                   torch::zeros({B, length}, torch::kInt64)};
  for (int64_t row = 0; row < B; ++row) {
    const int64_t begin = row == 1 ? std::min(before, length - lengths[1]) : 0;
    batch.mask[row].narrow(0, begin, lengths[row]).fill_(1);
  }
  if (typed) batch.types = torch::randint(2, {B, length}, torch::kInt64);
  return batch;
}

torch::Tensor hidden_of(const TextModel& model, const torch::Tensor& ids,
                        const torch::Tensor& types) {
  return model.masked_lm() ? model.masked_lm()->encode(ids, types)
                           : model.classifier().model->encode(ids, types);
}

// Our output for one sequence, ids and types (1, n): (n, C) or (C).
torch::Tensor output_of(const TextModel& model, const onnx::ExportOptions& options,
                        const torch::Tensor& ids, const torch::Tensor& types) {
  const auto& classifier = model.classifier().model;
  if (options.head == "embedding" || (classifier && classifier->options().outputs == 0)) {
    const auto row = pooled(hidden_of(model, ids, types), {},
                            options.pooling == "auto" ? "mean" : options.pooling)[0];
    return options.normalize ? row / row.norm() : row;
  }
  if (model.masked_lm()) return model.masked_lm()->predict(hidden_of(model, ids, types))[0];
  const auto logits = classifier->forward(ids, types);
  return classifier->options().pooling == "tokens" ? logits : logits[0];
}

// (B, L, C), NaN at padding, or (B, C).
torch::Tensor expected_output(const TextModel& model, const onnx::ExportOptions& options,
                              const TokenBatch& batch, bool typed) {
  std::vector<torch::Tensor> rows;
  for (int64_t b = 0; b < batch.ids.size(0); ++b) {
    const auto places = batch.mask[b].nonzero().squeeze(1);
    const auto ids = batch.ids[b].index_select(0, places).unsqueeze(0);
    const auto types = batch.types[b].index_select(0, places).unsqueeze(0);
    auto row = output_of(model, options, ids, typed ? types : torch::Tensor());
    if (row.dim() == 2) {
      const auto whole = torch::full({batch.ids.size(1), row.size(1)}, std::nanf(""));
      row = whole.index_copy(0, places, row);
    }
    rows.push_back(row);
  }
  return torch::stack(rows);
}

class CaseWriter {
 public:
  explicit CaseWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& name, const TextModel& model, const onnx::ExportOptions& options,
           const std::vector<int64_t>& lengths) {
    const torch::NoGradGuard no_grad;
    const auto exported = onnx::export_model(folder_ / (name + ".onnx"), model, options, name);
    const bool typed = model.encoder_options().type_vocab > 1;
    Json cases = Json::array();
    for (const int64_t length : lengths) {
      torch::manual_seed(length);
      const auto batch = token_batch(length, length / 5, typed);
      const auto expected = expected_output(model, options, batch, typed);
      EXPECT_EQ(expected.scalar_type(), torch::kFloat32);
      const auto stem = name + "_" + std::to_string(length);
      write(stem + ".input_ids", batch.ids);
      write(stem + ".attention_mask", batch.mask);
      if (typed) write(stem + ".token_type_ids", batch.types);
      write(stem + ".expected", expected);
      cases.push_back({{"stem", stem},
                       {"shape", batch.ids.sizes().vec()},
                       {"expected", expected.sizes().vec()}});
    }
    models_.push_back({{"model", name + ".onnx"},
                       {"output", exported.output},
                       {"typed", typed},
                       {"cases", cases}});
  }

  void finish() const { write_file(folder_ / "cases.json", Json(models_).dump(1) + "\n"); }

 private:
  void write(const std::string& name, const torch::Tensor& t) const {
    const auto data = t.contiguous();
    write_file(folder_ / name, {static_cast<const char*>(data.data_ptr()), data.nbytes()});
  }

  std::filesystem::path folder_;
  std::vector<Json> models_;
};

class OnnxRuntime : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* kept = std::getenv("HYDRAMIX_ONNX_CASES");
    if (kept == nullptr) temporary_ = std::make_unique<test::TemporaryFolder>();
    folder_ = kept == nullptr ? temporary_->path() : std::filesystem::path(kept);
    std::filesystem::create_directories(folder_);
    CaseWriter writer(folder_);
    for (const auto& [name, model] : test::export_models())
      // Chunks of 64 places, groups of 64 chunks: sizes around the limits of both.
      writer.add(name, *model, {},
                 name == "hydra" ? std::vector<int64_t>{1, 2, 63, 64, 65, 512, 2048, 4097, 8200}
                                 : std::vector<int64_t>{1, 63, 64, 65, 512, 2048});
    const auto hydra = test::export_models().front().model;
    for (const char* pooling : {"mean", "cls"})
      writer.add(std::string("embedding_") + pooling, *hydra,
                 {.head = "embedding", .pooling = pooling, .normalize = true}, {1, 65});
    writer.finish();
  }
  static void TearDownTestSuite() { temporary_.reset(); }

  static inline std::unique_ptr<test::TemporaryFolder> temporary_;
  static inline std::filesystem::path folder_;
};

const std::string kSource = HYDRAMIX_SOURCE_DIR;

TEST_F(OnnxRuntime, OfNodeGivesOurOutputs) {
  const auto r = test::run_program(kSource + "/scripts/onnxruntime.sh",
                                   kSource + "/tests/onnx/compare.js " + folder_.string());
  if (r.code == 77) GTEST_SKIP() << r.err;
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  std::cout << r.out;
}

// The rows of numbers that an example printed.
std::vector<std::vector<float>> printed_rows(const std::string& text) {
  std::vector<std::vector<float>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    rows.push_back(Json::parse(line).get<std::vector<float>>());
  return rows;
}

// Texts through tokenizer.json and the exported graph, as a user would.
TEST_F(OnnxRuntime, OfNodeEmbedsTextsWithTheTokenizerOfTheFolder) {
  const auto saved = folder_ / "saved";
  const auto tokenizer = test::small_tokenizer();
  save_model(saved, test::export_models().front().model->masked_lm(), &tokenizer);
  const auto model = TextModel::open(saved, {}, 512);
  onnx::export_model(saved / "model.onnx", *model, {.head = "embedding"}, saved.string());
  const std::vector<std::string> texts{"w1 w2 w3 w4 w5", "w6", "w7 w8 nothing"};
  std::string words = kSource + "/examples/onnx/run.js " + (saved / "model.onnx").string() + " " +
                      (saved / "tokenizer.json").string();
  for (const auto& text : texts) words += " '" + text + "'";
  const auto r = test::run_program(kSource + "/scripts/onnxruntime.sh", words);
  if (r.code == 77) GTEST_SKIP() << r.err;
  ASSERT_EQ(r.code, 0) << r.err;
  const auto rows = printed_rows(r.out);
  const auto expected = TextEmbedder(model, {}).embed(texts);
  ASSERT_EQ(rows.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(rows[i].size(), expected[i].vector.size());
    for (std::size_t c = 0; c < rows[i].size(); ++c)
      EXPECT_NEAR(rows[i][c], expected[i].vector[c], 1e-5) << texts[i];
  }
}

TEST_F(OnnxRuntime, OfPythonGivesOurOutputs) {
  const auto r = test::run_program("/usr/bin/python3",
                                   kSource + "/tests/python/onnx_check.py " + folder_.string());
  if (r.code == 77 || r.code == 127) GTEST_SKIP() << r.out << r.err;
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  std::cout << r.out;
}

}  // namespace
}  // namespace hydramix
