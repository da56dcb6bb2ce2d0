// SPDX-License-Identifier: Apache-2.0
// Fine-tuning on a user's own files, one test for each kind of label, in the built-in language.
#include <csignal>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "support/glue.h"
#include "train/finetune.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::vector<std::string> kMoods{"happy", "sad", "tired"};
const std::vector<std::string> kAnimals{"dog", "cat", "bird"};

struct OwnFinetuneTest : ::testing::Test {
  test::TemporaryFolder folder;

  FinetuneOptions options(const std::string& file, const std::string& out = "out") const {
    FinetuneOptions o;
    o.model = (folder / "encoder").string();
    o.data = (folder / file).string();
    o.out = (folder / out).string();
    o.device = "cpu";
    o.recipe = "tiny";
    o.epochs = 40;
    o.batch = 10;
    o.micro_batch = 10;
    o.max_length = 32;
    o.rate = 5e-3;
    return o;
  }
  void write(const std::string& file, const std::string& text) const {
    write_file(folder / file, text);
  }
  // `row(i)` for 60 examples below the header.
  template <class Row>
  void write_rows(const std::string& file, const std::string& header, const Row& row) const {
    std::string text = header;
    for (std::size_t i = 0; i < 60; ++i) text += row(i);
    write(file, text);
    test::write_encoder(folder / "encoder");
  }
  // Whether its 12 steps an epoch all ran.
  static int64_t steps(const Json& result) { return result.at("steps").get<int64_t>(); }
};

std::string mood(std::size_t i) { return kMoods[i % 3]; }
std::string animal(std::size_t i) { return kAnimals[i / 3 % 3]; }
std::string sentence(std::size_t i) { return "the " + animal(i) + " is " + mood(i) + " ."; }

TEST_F(OwnFinetuneTest, LearnsClassesOfATable) {
  write_rows("a.csv", "id,sentence,y\n",
             [](std::size_t i) { return "1,\"" + sentence(i) + "\"," + mood(i) + "\n"; });
  auto o = options("a.csv");
  o.text = "sentence", o.label = "y";
  std::string said;
  TrainEvents events;
  events.message = [&](const std::string& text) { said += text + "\n"; };
  const auto result = finetune(o, events).result;
  EXPECT_EQ(result.at("task"), "classes");
  EXPECT_EQ(result.at("metrics").at("accuracy"), 1.0);
  EXPECT_EQ(result.at("metrics").at("macro_f1"), 1.0);
  EXPECT_EQ(result.at("examples"), 54);
  EXPECT_NE(said.find("54 examples, 3 classes: happy, sad, tired"), std::string::npos) << said;
  EXPECT_NE(said.find("6 of the 60 rows"), std::string::npos) << said;
  const auto model = load_classifier(folder / "out/model");
  EXPECT_EQ(model.labels, kMoods);
  EXPECT_EQ(model.kind, "classes");
  EXPECT_EQ(model.text, "sentence");
  EXPECT_FALSE(fs::exists(folder / "out/predictions"));
}

TEST_F(OwnFinetuneTest, LearnsFromTheSecondTextOfAPair) {
  write_rows("a.jsonl", "", [](std::size_t i) {
    return Json{{"text", "the " + animal(i) + " is here ."},
                {"other", sentence(i)},
                {"label", i % 3 == 0}}
               .dump() +
           "\n";
  });
  auto o = options("a.jsonl");
  o.pair = "other";
  EXPECT_EQ(finetune(o).result.at("metrics").at("accuracy"), 1.0);
  EXPECT_TRUE(load_classifier(folder / "out/model").pairs);
}

// The scores have an offset and a unit that no encoder starts near.
TEST_F(OwnFinetuneTest, LearnsScoresInTheirUnit) {
  write_rows("a.tsv", "text\tlabel\n", [](std::size_t i) {
    return sentence(i) + "\t" + std::to_string(1000.5 + 100 * static_cast<double>(i % 3)) + "\n";
  });
  const auto result = finetune(options("a.tsv")).result;
  EXPECT_EQ(result.at("task"), "score");
  EXPECT_GT(result.at("metrics").at("pearson").get<double>(), 0.98);
  EXPECT_LT(result.at("metrics").at("rmse").get<double>(), 20);
  // The saved model answers in the unit of the file.
  auto folder_of_model = load_classifier(folder / "out/model");
  folder_of_model.model->eval();
  const auto ids = language_tokenizer().encode(sentence(2), 32).ids;
  std::vector<int64_t> wide(ids.begin(), ids.end());
  const auto answer =
      folder_of_model.model->forward(torch::tensor(wide, torch::kInt64).unsqueeze(0), {});
  EXPECT_NEAR(answer.item<double>(), 1200.5, 40);
}

TEST_F(OwnFinetuneTest, LearnsSeveralLabelsAndTheirThresholds) {
  write_rows("a.tsv", "text\tlabel\n", [](std::size_t i) {
    std::string text = "the " + animal(i), labels;
    for (std::size_t k = 0; k < 3; ++k)
      if ((i / 9 + 1) >> k & 1U) {
        text += " is " + kMoods[k] + " and";
        labels += (labels.empty() ? "" : ",") + kMoods[k];
      }
    return text + " .\t" + labels + "\n";
  });
  auto o = options("a.tsv");
  o.task = "labels";
  const auto metrics = finetune(o).result.at("metrics");
  EXPECT_EQ(metrics.at("micro_f1"), 1.0);
  EXPECT_EQ(metrics.at("exact"), 1.0);
  const auto model = load_classifier(folder / "out/model");
  EXPECT_EQ(model.kind, "labels");
  EXPECT_EQ(model.thresholds, metrics.at("thresholds").get<std::vector<double>>());
  for (const double threshold : model.thresholds) EXPECT_TRUE(threshold > 0 && threshold < 1);
}

TEST_F(OwnFinetuneTest, LearnsTagsOfWords) {
  write_rows("a.conll", "", [](std::size_t i) {
    return "the O\n" + animal(i) + " B-ANIMAL\nis O\n" + mood(i) + " B-MOOD\n. O\n\n";
  });
  auto o = options("a.conll");
  o.task = "tokens";
  const auto result = finetune(o).result;
  EXPECT_EQ(result.at("metrics").at("f1"), 1.0);
  EXPECT_EQ(result.at("metrics").at("accuracy"), 1.0);
  const auto model = load_classifier(folder / "out/model");
  EXPECT_EQ(model.labels, (std::vector<std::string>{"O", "B-ANIMAL", "B-MOOD"}));
  EXPECT_EQ(model.model->options().pooling, "tokens");

  // Words that were cut off count as missed, and are mentioned.
  auto cut = options("a.conll", "cut");
  cut.task = "tokens", cut.max_length = 4, cut.epochs = 1;
  std::string said;
  TrainEvents events;
  events.message = [&](const std::string& text) { said += text + "\n"; };
  EXPECT_LE(finetune(cut, events).result.at("metrics").at("recall").get<double>(), 0.5);
  EXPECT_NE(said.find("18 words of the development set have no token"), std::string::npos) << said;
}

TEST_F(OwnFinetuneTest, LearnsVectorsByWhichPartnersFindEachOther) {
  write_rows("a.csv", "a,b\n", [](std::size_t i) {
    return "what colour is the " + animal(i) + " ?,the " + animal(i) + " that is " + mood(i / 9) +
           " .\n";
  });
  auto o = options("a.csv");
  o.task = "pairs", o.text = "a", o.pair = "b";
  o.dev = (folder / "dev.csv").string();
  write("dev.csv",
        "a,b\nis the dog sad ?,the dog is here .\nis the cat sad ?,the cat is here .\n"
        "is the bird sad ?,the bird is here .\n");
  const auto result = finetune(o).result;
  EXPECT_EQ(result.at("metrics").at("recall@1"), 1.0);
  const auto model = load_classifier(folder / "out/model");
  EXPECT_EQ(model.kind, "pairs");
  EXPECT_EQ(model.model->options().outputs, 0);
  EXPECT_EQ(model.model->options().pooling, "mean");
  o.micro_batch = 4;
  o.out = (folder / "other").string();
  EXPECT_THROW_WITH(finetune(o), UsageError, "compared with each other");
}

TEST_F(OwnFinetuneTest, LearnsVectorsWhoseSimilarityFollowsScores) {
  write_rows("a.tsv", "a\tb\ts\n", [](std::size_t i) {
    const std::size_t other = i / 3 % 3;
    return "the dog is " + kMoods[i % 3] + " .\tthe cat is " + kMoods[other] + " .\t" +
           (i % 3 == other ? "5.0" : "1.5") + "\n";
  });
  auto o = options("a.tsv");
  o.task = "pairs", o.text = "a", o.pair = "b", o.label = "s";
  const auto metrics = finetune(o).result.at("metrics");
  EXPECT_GT(metrics.at("pearson").get<double>(), 0.9);
  EXPECT_EQ(metrics.at("score"), metrics.at("spearman"));
  EXPECT_TRUE(metrics.contains("mrr"));
}

// ---- how long it trains, and what it keeps ----

struct PatienceTest : OwnFinetuneTest {
  // Labels that the texts do not determine: the score of the held-out rows goes up and down.
  void write_noise() const {
    write_rows("a.tsv", "text\tlabel\n", [](std::size_t i) {
      return sentence(i * 7) + "\t" + (i * i % 7 < 3 ? "x" : "y") + "\n";
    });
  }
};

TEST_F(PatienceTest, KeepsTheBestEpochAndStopsEarly) {
  write_noise();
  auto o = options("a.tsv");
  o.dev_share = 0.3;
  o.patience = 2;
  std::vector<double> scores;
  TrainEvents events;
  events.evaluation = [&](int64_t, const Json& evaluation) {
    scores.push_back(evaluation.at("score").get<double>());
  };
  const auto result = finetune(o, events).result;
  const double best = *std::max_element(scores.begin(), scores.end());
  EXPECT_EQ(result.at("metrics").at("score"), best);
  const std::size_t stopped = scores.size();
  EXPECT_EQ(steps(result), static_cast<int64_t>(scores.size()) * 5);  // 42 examples, batches of 10
  // Without patience all epochs run, and the last one counts.
  o.patience = 0, o.keep = "last", o.out = (folder / "last").string();
  scores.clear();
  const auto last = finetune(o, events).result;
  EXPECT_GT(scores.size(), stopped) << "it never stopped";
  EXPECT_EQ(last.at("metrics").at("score"), scores.back());
}

TEST_F(PatienceTest, AStoppedRunContinuesToTheSameBitsAndTheSameEnd) {
  write_noise();
  auto o = options("a.tsv", "whole");
  o.dev_share = 0.3;
  o.patience = 3;
  auto expected = finetune(o).result;
  o.out = (folder / "out").string();
  for (const int64_t at : {4, 5, 11}) {
    TrainEvents events;
    events.step = [&](const StepReport& report) {
      if (report.step == at) std::raise(SIGTERM);
    };
    ASSERT_EQ(finetune(o, events).end, Trainer::End::kInterrupted) << at;
  }
  auto result = finetune(o).result;
  for (auto* json : {&expected, &result}) json->erase("seconds");
  EXPECT_EQ(result, expected);
  EXPECT_EQ(read_file(folder / "out/model/model.safetensors"),
            read_file(folder / "whole/model/model.safetensors"));
  // Another development set is another run, also when it is held out in one of the two.
  o.dev = (folder / "dev.tsv").string();
  write("dev.tsv", "text\tlabel\n" + sentence(1) + "\tx\n");
  EXPECT_THROW_WITH(finetune(o), Error, "dev was");
}

TEST_F(OwnFinetuneTest, AsksForATaskOrAFile) {
  test::write_encoder(folder / "encoder");
  auto o = options("");
  EXPECT_THROW_WITH(finetune(o), UsageError, "is a folder, as of GLUE. Which of its tasks?");
  o.task = "MRPC", o.text = "sentence";
  EXPECT_THROW_WITH(finetune(o), UsageError, "--text: MRPC has files and columns of its own");
  o = options("none.tsv");
  EXPECT_THROW_WITH(finetune(o), Error, "none.tsv");
}

// Its weights still change, so the result could not be had again.
TEST_F(OwnFinetuneTest, RefusesARunThatIsStillInTraining) {
  write_rows("a.tsv", "text\tlabel\n",
             [](std::size_t i) { return sentence(i) + "\t" + mood(i) + "\n"; });
  const auto model = load_model(folder / "encoder");
  const auto run = folder / "run";
  fs::create_directories(run / "checkpoints");
  write_file(run / "config.json",
             Json{{"model", to_json(model->options())}, {"train", Json::object()}}.dump());
  language_tokenizer().save(run / "tokenizer.json");
  Checkpoint checkpoint;
  checkpoint.step = 4;
  for (const auto& [name, weight] : named_weights(*model))
    checkpoint.tensors.emplace("weights." + name, weight.detach().clone());
  write_checkpoint(run / "checkpoints/step-0000000004.safetensors", checkpoint);
  auto o = options("a.tsv");
  o.model = run.string();
  o.epochs = 1;
  EXPECT_THROW_WITH(finetune(o), Error, "is a run of pretraining that is not complete");
  EXPECT_FALSE(fs::exists(folder / "out"));
  o.unfinished = true;
  EXPECT_EQ(finetune(o).end, Trainer::End::kDone);
}

}  // namespace
}  // namespace hydramix
