// SPDX-License-Identifier: Apache-2.0
// hydramix evaluate: a run's own number, and what it says where it cannot give one;
// and training that ends without a usable model.
#include <nlohmann/json.hpp>

#include "support/tiny_run.h"

namespace hydramix {
namespace {

using test::contains;
using test::run_here;
using test::TemporaryFolder;

// The evaluations in metrics.jsonl.
std::vector<nlohmann::json> evaluations(const std::filesystem::path& out) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(out / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);)
    if (auto object = nlohmann::json::parse(line); object.contains("evaluation/loss"))
      lines.push_back(std::move(object));
  return lines;
}

double loss_of(const test::Result& r) {
  EXPECT_EQ(r.code, 0) << r.err;
  return r.code == 0 ? nlohmann::json::parse(r.out).at("loss").get<double>() : -1;
}

TEST(Evaluate, ARunGivesTheNumberOfItsTraining) {
  TemporaryFolder folder;
  test::make_shards(folder.path());
  const auto out = folder / "run", shards = folder / "shards";
  const auto made = run_here(test::tiny_pretrain(
      out, "--data.train " + shards.string() + " --data.validation " + shards.string() +
               " --data.vocab " + (folder / "vocab.txt").string() +
               " --data.sequences.long-documents join --data.sequences.max-length 24 "
               "--data.sequences.evaluation-mask 0.3 --data.evaluation-documents 25"));
  ASSERT_EQ(made.code, 0) << made.err;
  const double expected = evaluations(out).back()["evaluation/loss"].get<double>();
  const std::string command = "evaluate --json " + out.string();
  EXPECT_EQ(loss_of(run_here(command)), expected);
  EXPECT_NE(loss_of(run_here(command + " --mask 0.15")), expected);
  EXPECT_NE(loss_of(run_here(command + " --long-documents truncate")), expected);
  EXPECT_EQ(loss_of(run_here(command + "/model --data " + shards.string() +
                             " --long-documents join --max-length 24 --mask 0.3 --documents 25 "
                             "--micro-batch 3")),
            expected);

  // Texts give the number of their shards.
  const std::string texts = " --data " + (folder / "text.txt").string();
  EXPECT_EQ(loss_of(run_here(command + texts)), expected);
  const std::string some = "/model --long-documents truncate --documents 7 --data ";
  const double shortened = loss_of(run_here(command + some + shards.string()));
  EXPECT_NE(shortened, expected);
  EXPECT_EQ(loss_of(test::run(command + some + "- <" + (folder / "text.txt").string())), shortened);
  const auto useless = run_here(command + " --field body");
  EXPECT_EQ(useless.code, 2);
  EXPECT_TRUE(contains(useless.err, "describe a file of texts")) << useless.err;

  const auto model = run_here(command + "/model");
  EXPECT_EQ(model.code, 2);
  EXPECT_TRUE(contains(model.err, "--data is missing")) << model.err;
  std::filesystem::rename(shards, folder / "elsewhere");
  const auto moved = run_here(command);
  EXPECT_EQ(moved.code, 1);
  EXPECT_TRUE(contains(moved.err, "Say where it is with --data FOLDER")) << moved.err;
  EXPECT_EQ(loss_of(run_here(command + " --data " + (folder / "elsewhere").string())), expected);
}

TEST(Evaluate, ARunOnTheLanguageNeedsNoOptions) {
  TemporaryFolder folder;
  test::make_language_run(folder / "run");
  EXPECT_EQ(loss_of(run_here("evaluate --json " + (folder / "run").string())),
            evaluations(folder / "run").back()["evaluation/loss"].get<double>());
}

TEST(Evaluate, ADamagedConfigOrTokenizerOfARunIsNoticed) {
  TemporaryFolder folder;
  test::make_language_run(folder / "run");
  const auto expect_error = [&](const std::string& file, const std::string& from,
                                const std::string& to) {
    const auto path = folder / "run" / file;
    const std::string good = read_file(path);
    auto text = good;
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_file(path, text.replace(at, from.size(), to));
    const auto r = run_here("evaluate " + (folder / "run").string());
    EXPECT_EQ(r.code, 1) << file;
    EXPECT_TRUE(contains(r.err, file)) << r.err;
    write_file(path, good);
  };
  expect_error("config.json", "\"evaluation_mask\": 0.15", "\"evaluation_mask\": 0.25");
  expect_error("tokenizer.json", "\"anna\"", "\"enna\"");
  expect_error("data.json", "\"train\": \"", "\"train\": \"0");
}

TEST(Diverged, TrainingFailsWithoutAModelAndNamesTheLastGoodCheckpoint) {
  TemporaryFolder folder;
  const auto out = folder / "run";
  const auto command = test::tiny_pretrain(
      out,
      "--data.evaluation-documents 10 --data.language-documents 50 --train.steps 12 "
      "--train.schedule.warmup 0 --train.optimizer.rate 1000 --train.most-skipped 100");
  for (int attempt = 0; attempt < 2; ++attempt) {  // continued, it fails again
    const auto r = test::run(command);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_TRUE(contains(r.err, "error: training failed")) << r.err;
    EXPECT_TRUE(contains(r.err, "No model is written")) << r.err;
    EXPECT_TRUE(contains(r.err, "checkpoint")) << r.err;
    EXPECT_FALSE(std::filesystem::exists(out / "model"));
  }
  // Every line is JSON; what is not finite is null.
  std::istringstream text(read_file(out / "metrics.jsonl"));
  int nulls = 0;
  for (std::string line; std::getline(text, line);) {
    const auto object = nlohmann::json::parse(line);
    for (const auto& value : object) nulls += value.is_null();
  }
  EXPECT_GT(nulls, 0);
}

}  // namespace
}  // namespace hydramix
