// SPDX-License-Identifier: Apache-2.0
#include "train/finetune.h"

#include <csignal>
#include <sstream>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/glue.h"
#include "support/optimizer.h"
#include "train/example_training.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct FinetuneTest : ::testing::Test {
  test::TemporaryFolder folder;

  FinetuneOptions options(const std::string& task, const std::string& out = "out") const {
    FinetuneOptions o;
    o.model = (folder / "encoder").string();
    o.task = task;
    o.data = (folder / "glue").string();
    o.out = (folder / out).string();
    o.device = "cpu";
    o.epochs = 2;
    o.batch = 10;
    o.micro_batch = 4;
    o.max_length = 32;
    o.rate = 3e-3;
    return o;
  }
  void prepare(const std::vector<std::string>& tasks) const {
    test::write_glue(folder / "glue", tasks);
    test::write_encoder(folder / "encoder");
  }
  static int64_t lines(const fs::path& path) {
    const auto text = read_file(path);
    return std::count(text.begin(), text.end(), '\n');
  }
  // Replaces text in a file, which must contain it.
  static void change(const fs::path& path, const std::string& from, const std::string& to) {
    auto text = read_file(path);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_file(path, text.replace(at, from.size(), to));
  }
};

// The results without timings.
Json timeless(Json result) {
  result.erase("seconds");
  return result;
}

TEST_F(FinetuneTest, LeavesAModelItsMetricsAndPredictions) {
  prepare({"QQP"});
  const auto outcome = finetune(options("qqp"));
  ASSERT_EQ(outcome.end, Trainer::End::kDone);
  EXPECT_EQ(outcome.result.at("task"), "QQP");
  EXPECT_EQ(outcome.result.at("steps"), 10);  // 2 x 48 examples in batches of 10
  const auto& metrics = outcome.result.at("metrics");
  for (const char* name : {"loss", "accuracy", "f1", "score"}) EXPECT_TRUE(metrics.contains(name));
  EXPECT_DOUBLE_EQ(metrics.at("score").get<double>(),
                   (metrics.at("accuracy").get<double>() + metrics.at("f1").get<double>()) / 2);
  EXPECT_EQ(lines(folder / "out/predictions/QQP.tsv"), 9);  // a head, 8 rows
  EXPECT_FALSE(fs::exists(folder / "out/checkpoints"));
  const auto classifier = load_classifier(folder / "out/model");
  EXPECT_EQ(classifier.task, "QQP");
  EXPECT_EQ(classifier.labels, (std::vector<std::string>{"0", "1"}));
}

TEST_F(FinetuneTest, LearnsWhatIsInTheExamples) {
  test::write_easy_glue(folder / "glue");
  test::write_encoder(folder / "encoder");
  auto o = options("SST-2");
  o.epochs = 12;
  o.rate = 1e-2;
  EXPECT_EQ(finetune(o).result.at("metrics").at("accuracy"), 1.0);
}

TEST_F(FinetuneTest, LearnsWhatIsInTheSecondSentence) {
  test::write_easy_pairs(folder / "glue");
  test::write_encoder(folder / "encoder");
  auto o = options("RTE");
  o.epochs = 12;
  o.rate = 1e-2;
  EXPECT_EQ(finetune(o).result.at("metrics").at("accuracy"), 1.0);
}

TEST_F(FinetuneTest, AStoppedRunContinuesToTheSameBitsAndACompleteOneIsShown) {
  prepare({"CoLA"});
  const auto expected = finetune(options("CoLA", "whole")).result;
  int64_t steps = 0;
  TrainEvents events;
  events.step = [&](const StepReport& report) {
    ++steps;
    if (report.step == 4) std::raise(SIGTERM);
  };
  EXPECT_EQ(finetune(options("CoLA"), events).end, Trainer::End::kInterrupted);
  EXPECT_FALSE(fs::exists(folder / "out/result.json"));
  EXPECT_THROW_WITH(open_trained_model(folder / "out"), Error, "not complete");
  const auto outcome = finetune(options("CoLA"), events);
  EXPECT_EQ(timeless(outcome.result), timeless(expected));
  EXPECT_EQ(read_file(folder / "out/model/model.safetensors"),
            read_file(folder / "whole/model/model.safetensors"));
  EXPECT_GE(steps, expected.at("steps").get<int64_t>());

  steps = 0;
  EXPECT_EQ(finetune(options("CoLA"), events).result, outcome.result);
  EXPECT_EQ(steps, 0);
  auto other = options("CoLA");
  other.rate = 1e-3;
  EXPECT_THROW_WITH(finetune(other), UsageError, "rate was");
}

TEST_F(FinetuneTest, TheRecipeFillsUnsetOptions) {
  FinetuneOptions o;
  o.task = "sst2";
  const auto all = completed(o);
  EXPECT_EQ(all.task, "SST-2");
  EXPECT_EQ(all.rate, 5e-5);
  EXPECT_EQ(all.decay, 3e-6);
  EXPECT_EQ(all.epochs, 2);
  EXPECT_EQ(all.max_length, 256);
  EXPECT_EQ(all.decay_rule, "decoupled");
  EXPECT_EQ(all.clip, kInfinity);
  EXPECT_EQ(all.pooling, "auto");
  o.recipe = "m2";
  o.task = "QNLI";
  EXPECT_EQ(completed(o).pooling, "mean");
  o.task = "QQP";
  EXPECT_EQ(completed(o).decay_rule, "times_rate");
  EXPECT_EQ(train_options(completed(o), 100).optimizer.groups, glue_recipe("m2", "QQP").groups);
  EXPECT_EQ(completed(o).groups.size(), 2u);
  o.groups = {"filter rate=1e-4"};
  EXPECT_EQ(completed(o).groups.size(), 1u);
  o.decay_rule = "decoupled", o.clip = 2, o.pooling = "cls";
  EXPECT_EQ(completed(o).decay_rule, "decoupled");
  EXPECT_EQ(completed(o).clip, 2);
  EXPECT_EQ(completed(o).pooling, "cls");
  o.rate = 1, o.decay = 0, o.epochs = 9, o.batch = 7, o.max_length = 99;
  EXPECT_EQ(to_json(completed(o))["rate"], 1);
  EXPECT_EQ(to_json(completed(o))["decay"], 0);
  EXPECT_EQ(to_json(completed(o))["epochs"], 9);
  EXPECT_EQ(to_json(completed(o))["batch"], 7);
  EXPECT_EQ(to_json(completed(o))["max_length"], 99);
}

// The share of a weight that remains after all steps of a task if only the recipe's decay acts,
// computed by our optimizer.
double kept_by_decay(const FinetuneOptions& options, int64_t examples) {
  torch::nn::Linear model(4, 4);
  model->to(torch::kFloat64);
  FlatParameters flat(*model);
  flat.values().fill_(1);
  AdamWOptions adamw;
  adamw.rate = options.rate;
  adamw.decay = options.decay;
  adamw.decay_rule = options.decay_rule;
  AdamW optimizer(flat, adamw);
  const int64_t steps = (examples * options.epochs + options.batch - 1) / options.batch;
  for (int64_t step = 0; step < steps; ++step)
    test::take_step(optimizer, rate_share(options.schedule, step, steps), 1);
  return model->weight[0][0].item<double>();
}

// Betas and epsilon: finetuning_jobs.py of goombalab/hydra 55bef74 and HazyResearch/m2 7d359e8, for
// every task. Schedule: t_warmup 0.06dur, alpha_f 0.0 of all their yamls for fine-tuning.
TEST(Finetune, PublishedRecipesShareScheduleAndMoments) {
  for (const auto* recipe : {"hydra", "hydra_24", "m2", "train_bert", "fnet", "table2"})
    for (const auto& task : sentence_tasks()) {
      FinetuneOptions finetune;
      finetune.recipe = recipe;
      finetune.task = task.name;
      const auto train = train_options(completed(finetune), 100);
      const auto what = std::string(recipe) + " " + task.name;
      EXPECT_EQ(train.schedule.shape, "linear") << what;
      EXPECT_EQ(train.schedule.warmup, 0.06) << what;
      EXPECT_EQ(train.schedule.final, 0) << what;
      EXPECT_EQ(train.optimizer.beta1, 0.9) << what;
      EXPECT_EQ(train.optimizer.beta2, 0.98) << what;
      EXPECT_EQ(train.optimizer.epsilon, 1e-6) << what;
      EXPECT_EQ(train.optimizer.ema, 0) << what;
    }
}

// M2's decays of 1e-2 are for torch's AdamW; as decoupled decays they would erase the weights.
TEST_F(FinetuneTest, TheDecayOfARecipeLeavesTheWeights) {
  const std::vector<std::pair<std::string, int64_t>> examples{
      {"RTE", 2490}, {"MRPC", 3668}, {"STS-B", 5749}, {"CoLA", 8551}};
  for (const auto& recipe : glue_recipes())
    for (const auto& [task, count] : examples) {
      FinetuneOptions o;
      o.recipe = recipe;
      o.task = task;
      EXPECT_GT(kept_by_decay(completed(o), count), 0.98) << recipe << " " << task;
    }
  FinetuneOptions o;
  o.recipe = "m2";
  o.task = "RTE";
  o.decay_rule = "decoupled";
  EXPECT_NEAR(kept_by_decay(completed(o), 2490), 0.009, 0.001);
}

TEST_F(FinetuneTest, TestFilesMayComeLaterAndGo) {
  prepare({"CoLA"});
  const auto test = folder / "glue/CoLA/test.tsv";
  const auto rows = read_file(test);
  fs::remove(test);
  const auto result = finetune(options("CoLA")).result;
  EXPECT_FALSE(fs::exists(folder / "out/predictions"));
  write_file(test, rows);
  std::string said;
  TrainEvents events;
  events.message = [&](const std::string& text) { said += text; };
  EXPECT_EQ(finetune(options("CoLA"), events).result, result);
  EXPECT_NE(said.find("hydramix predict"), std::string::npos) << said;

  finetune(options("CoLA", "with"));
  fs::remove(test);
  EXPECT_EQ(finetune(options("CoLA", "with")).result.at("metrics"), result.at("metrics"));
  // Other examples make another run.
  change(folder / "glue/CoLA/dev.tsv", "\t1\t", "\t0\t");
  EXPECT_THROW_WITH(finetune(options("CoLA")), Error, "dev was");
}

TEST_F(FinetuneTest, ScoresAreARegression) {
  prepare({"STS-B"});
  const auto metrics = finetune(options("STS-B")).result.at("metrics");
  EXPECT_TRUE(metrics.contains("pearson") && metrics.contains("mean"));
  EXPECT_EQ(metrics.at("score"), metrics.at("spearman"));
  EXPECT_TRUE(load_classifier(folder / "out/model").labels.empty());
}

TEST_F(FinetuneTest, MnliHasTwoDevSetsAndItsEncoderServesOthers) {
  prepare({"MNLI", "RTE"});
  const auto metrics = finetune(options("MNLI", "mnli")).result.at("metrics");
  const auto& parts = metrics.at("parts");
  EXPECT_DOUBLE_EQ(metrics.at("accuracy").get<double>(),
                   (parts.at("dev_matched").at("accuracy").get<double>() +
                    parts.at("dev_mismatched").at("accuracy").get<double>()) /
                       2);
  EXPECT_EQ(lines(folder / "mnli/predictions/MNLI-mm.tsv"), 9);

  // Without a step that changes anything the encoder is that of MNLI.
  auto o = options("RTE");
  o.model = (folder / "mnli").string();
  o.epochs = 1;
  o.rate = 1e-30;
  o.decay = 0;
  finetune(o);
  const auto from = load_classifier(folder / "mnli/model").model->named_parameters();
  const auto to = load_classifier(folder / "out/model").model->named_parameters();
  for (const auto& item : to) {
    if (item.key().starts_with("classifier.")) continue;
    EXPECT_TRUE(torch::equal(item.value(), from[item.key()])) << item.key();
  }
}

TEST_F(FinetuneTest, ADivergedRunIsAFailureWithoutAModel) {
  prepare({"RTE"});
  auto o = options("RTE");
  o.epochs = 2;
  o.rate = 1000;
  o.decay = 1;  // a step multiplies the weights by -999
  o.decay_rule = "times_rate";
  EXPECT_THROW_WITH(finetune(o), Error, "training ");  // failed, or gave up
  EXPECT_FALSE(fs::exists(folder / "out/model"));
  EXPECT_FALSE(fs::exists(folder / "out/result.json"));
}

TEST_F(FinetuneTest, ADamagedResultIsNoticed) {
  prepare({"RTE"});
  finetune(options("RTE"));
  EXPECT_FALSE(finetune(options("RTE")).result.contains("crc32c"));
  change(folder / "out/result.json", "\"seed\": ", "\"seed\": 1");
  EXPECT_THROW_WITH(finetune(options("RTE")), Error, "result.json: the checksum of its values is");
}

TEST_F(FinetuneTest, PairsNeedTypes) {
  prepare({"RTE"});
  auto model = test::tiny_bert("hydra");
  model.vocab = language_tokenizer().size();
  model.type_vocab = 1;
  save_model(folder / "encoder", BertForMaskedLM(model));
  EXPECT_THROW_WITH(check_start(options("RTE"), model, 1), Error, "type_vocab");
  EXPECT_THROW_WITH(finetune(options("RTE")), Error, "type_vocab");
}

TEST_F(FinetuneTest, CausalMixersArePooledByTheMean) {
  prepare({"RTE"});
  test::write_encoder(folder / "encoder", "semiseparable");
  finetune(options("RTE"));
  EXPECT_EQ(load_classifier(folder / "out/model").model->options().pooling, "mean");
}

TEST_F(FinetuneTest, ErrorsAreReportedBeforeTraining) {
  prepare({"RTE", "STS-B", "CoLA"});
  TrainEvents events;
  events.step = [](const StepReport&) { ADD_FAILURE() << "a step was taken"; };
  EXPECT_THROW_WITH(finetune(options("RTA"), events), UsageError, "RTE");
  EXPECT_THROW_WITH(finetune(options("QNLI"), events), Error, "QNLI/train.tsv");
  change(folder / "glue/RTE/dev.tsv", "not_entailment", "perhaps");
  EXPECT_THROW_WITH(finetune(options("RTE"), events), Error, "perhaps");
  change(folder / "glue/STS-B/train.tsv", "\t3.000", "\tthree");
  EXPECT_THROW_WITH(finetune(options("STS-B"), events), Error, "three");
  write_file(folder / "glue/CoLA/dev.tsv", "");
  EXPECT_THROW_WITH(finetune(options("CoLA"), events), Error, "CoLA/dev.tsv");
  auto o = options("RTE");
  o.decay = -0.5;
  EXPECT_THROW_WITH(finetune(o, events), UsageError, "decay: -0.5");
  prepare({"RTE"});
  o.decay = 0;
  o.groups = {"filter rate=1e-3"};
  EXPECT_THROW_WITH(finetune(o, events), UsageError, "fits no weight");
  o.groups = {};
  o.recipe = "hidra";
  EXPECT_THROW_WITH(finetune(o, events), UsageError, "there is no 'hidra'");
  EXPECT_THROW_WITH(check_start(options("RTE"), test::tiny_bert("hydra"), 3), UsageError,
                    "among 3 ranks");
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST_F(FinetuneTest, LengthsMustFitTheModel) {
  prepare({"RTE"});
  auto o = options("RTE");
  o.max_length = 2;
  EXPECT_THROW_WITH(finetune(o), UsageError, "no room");
  EXPECT_FALSE(fs::exists(folder / "out"));
  test::write_encoder(folder / "encoder", "hydra", /*positions=*/20);
  EXPECT_THROW_WITH(finetune(options("RTE")), UsageError, "--max-length 20");
  test::write_encoder(folder / "encoder", "dense");
  EXPECT_THROW_WITH(finetune(options("RTE")), UsageError, "--max-length 16");
}

// ---- the task ----

struct Examples {
  const SentenceTask& task = sentence_task("STS-B");
  std::vector<EncodedExample> train, dev;

  Examples() {
    for (int i = 0; i < 11; ++i) {
      std::vector<int32_t> ids{2};
      for (int k = 0; k <= i % 5; ++k) ids.push_back(5 + (3 * i + k) % 20);
      ids.push_back(3);
      const EncodedExample one{ids, std::vector<int32_t>(ids.size()), {i * 0.4}, i + 1};
      (i < 7 ? train : dev).push_back(one);
    }
  }
  ExampleTraining classification(int64_t epochs) const {
    torch::manual_seed(8);
    SequenceClassifier model(test::tiny_bert("hydra"), ClassifierOptions{1, "cls", 0.2});
    model->to(torch::kFloat64);
    return {model, task, train, {{"dev", dev}}, {.epochs = epochs, .micro_batch = 2, .seed = 4}};
  }
};

TEST(ExampleTrainingTest, RanksAddUpToTheWholeEvaluation) {
  const Examples examples;
  auto task = examples.classification(1);
  const auto whole = task.evaluate(0, 1);
  auto sum = task.evaluate(0, 2);
  const auto other = task.evaluate(1, 2);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i] + other[i], whole[i], 1e-12);
  EXPECT_EQ(whole[1], 4);
  const auto first = task.predict(examples.dev, 0, 2), second = task.predict(examples.dev, 1, 2);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(first[i] + second[i], whole[i + 2], 1e-12);
}

TEST(ExampleTrainingTest, AnEpochSeesEveryExampleOnceHoweverItIsCut) {
  const Examples examples;
  const auto gradient = [&](int64_t at_once) {
    auto task = examples.classification(2);
    EXPECT_EQ(task.steps(4), 4);  // 14 examples
    Totals totals;
    for (int64_t first = 0; first < 20; first += at_once)
      totals.add(task.accumulate({first, at_once}, std::nullopt));
    EXPECT_EQ(totals.terms, 14);  // those after the last epoch do not count
    std::vector<torch::Tensor> parts;
    for (const auto& p : task.model().parameters()) parts.push_back(p.grad().flatten());
    return torch::cat(parts);
  };
  const auto one = gradient(1), five = gradient(5);
  EXPECT_LE((one - five).abs().max().item<double>(), 1e-12 * one.abs().max().item<double>());
}

}  // namespace
}  // namespace hydramix
