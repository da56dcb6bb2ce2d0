// SPDX-License-Identifier: Apache-2.0
// Training on images as one call: learning, exact resumption, fine-tuning, and requests that are
// refused.
#include "train/train_images.h"

#include <csignal>

#include "base/json_reader.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/weights.h"
#include "support/expect.h"
#include "support/models.h"
#include "train/run_folder.h"

namespace hydramix {
namespace {

// A few steps on few drawn images, with everything that is random.
ImageTrainOptions few_steps(const std::filesystem::path& out) {
  ImageTrainOptions options;
  options.out = out.string();
  options.device = "cpu";
  options.model = test::tiny_image_model("hydra");
  options.model.size = 16;
  options.model.classes = 0;
  options.model.stochastic_depth = 0.3;
  options.data.drawn = {.train = 40, .validation = 20, .side = 16};
  options.augment.size = 16;
  options.train.epochs = 2;
  options.train.warmup_epochs = 0.5;
  auto& steps = options.train.steps;
  steps.batch = 8;
  steps.micro_batch = 4;
  steps.log_every = 1;
  steps.checkpoint_every = 100;
  steps.optimizer.ema = 0.9;
  return options;
}

std::map<std::string, torch::Tensor> weights_in(const std::filesystem::path& folder) {
  return named_weights(*load_image_model(folder).model);
}

void expect_same_weights(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto other = weights_in(b);
  for (const auto& [name, weight] : weights_in(a))
    EXPECT_TRUE(weight.equal(other.at(name))) << name;
}

TEST(TrainImages, AHydraLearnsTheDrawnImages) {
  const test::TemporaryFolder folder;
  ImageTrainOptions options;
  load_yaml(options, std::filesystem::path(HYDRAMIX_SOURCE_DIR) / "recipes/images/tiny.yaml");
  options.out = folder.path().string();
  options.device = "cpu";
  options.model.patch = 8;
  options.data.drawn = {.train = 2000, .validation = 500};
  options.augment.crop = "centre";
  options.augment.flip = 0;
  options.train.epochs = 4;
  options.train.warmup_epochs = 0.3;
  options.train.steps.batch = 16;
  options.data.workers = 1;
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);  // products are small
  const auto result = train_images(options);
  torch::set_num_threads(threads);
  // A model that knows nothing of an image loses at least log 10 = 2.303 on average, and has its
  // class among five of ten in half of the cases, with a standard deviation of 0.022.
  for (const auto& evaluation : {result.evaluation, result.evaluation.at("average")}) {
    EXPECT_LT(evaluation.at("loss").get<double>(), 2.26);
    EXPECT_GT(evaluation.at("top5").get<double>(), 0.57);
  }
}

TEST(TrainImages, ARunHoldsEverything) {
  const test::TemporaryFolder folder;
  auto options = few_steps(folder.path());
  std::vector<int64_t> evaluated;
  ImageTrainEvents events;
  events.evaluation = [&](int64_t step, const nlohmann::ordered_json&) {
    evaluated.push_back(step);
  };
  int64_t announced = 0;
  events.building = [&](const ImageTrainOptions& all, int64_t parameters) {
    EXPECT_EQ(all.train.steps.steps, 10) << "2 epochs of 40 images in batches of 8";
    EXPECT_EQ(all.train.steps.schedule.warmup, 0.25);
    EXPECT_EQ(all.model.classes, 10);
    announced = parameters;
  };
  const auto result = train_images(options, events);
  EXPECT_EQ(result.end, Trainer::End::kDone);
  EXPECT_EQ(result.parameters, announced);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{5, 10}));
  const auto trained = load_image_model(folder / "model");
  EXPECT_EQ(trained.classes, drawn_classes());
  const auto last = weights_in(folder / "model"), average = weights_in(folder / "average");
  EXPECT_FALSE(last.at("classifier.weight").equal(average.at("classifier.weight")));
  const auto config = read_json(folder / "config.json", kConfigFile);
  EXPECT_EQ(config["model"]["classes"], 10);
  const auto table = read_file(folder / "classes.tsv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 11);
  EXPECT_TRUE(std::filesystem::exists(folder / "confusion.tsv"));
  EXPECT_NE(read_file(folder / "confusion.svg").find("<svg"), std::string::npos);
  // The same call shows the complete run; other options are another run.
  EXPECT_EQ(train_images(options).evaluation, result.evaluation);
  options.augment.erasing = 0;
  EXPECT_THROW_WITH(train_images(options), UsageError, "augment.erasing was 0.25, is 0.0");
}

TEST(TrainImages, AStoppedRunReachesTheSameBits) {
  const test::TemporaryFolder whole, stopped;
  train_images(few_steps(whole.path()));
  auto options = few_steps(stopped.path());
  for (const int64_t stop_at : {3, 5, 6}) {
    ImageTrainEvents events;
    events.step = [&](const StepReport& report) {
      if (report.step == stop_at) std::raise(SIGTERM);
    };
    EXPECT_EQ(train_images(options, events).end, Trainer::End::kInterrupted);
    EXPECT_FALSE(std::filesystem::exists(stopped / "model"));
    options.data.workers = stop_at;  // no part of the result
  }
  EXPECT_EQ(train_images(options).end, Trainer::End::kDone);
  expect_same_weights(whole / "model", stopped / "model");
  expect_same_weights(whole / "average", stopped / "average");
  EXPECT_EQ(read_file(whole / "confusion.tsv"), read_file(stopped / "confusion.tsv"));
}

TEST(TrainImages, StartsFromAnotherModelForOtherClassesAndSizes) {
  const test::TemporaryFolder first, second;
  auto options = few_steps(first.path());
  options.model.positions = true;
  options.train.epochs = 0.2;
  options.train.warmup_epochs = 0;
  train_images(options);
  options.out = second.path().string();
  options.from = first.path().string();
  options.model = {};  // that of the start, apart from these
  options.model.size = options.augment.size = 24;
  options.train.steps.optimizer.rate = 0;
  train_images(options);
  const auto before = weights_in(first / "model"), after = weights_in(second / "model");
  for (const auto& [name, weight] : after) {
    if (name == "vit.embeddings.position_embeddings") continue;
    EXPECT_TRUE(weight.equal(before.at(name))) << name;
  }
  EXPECT_EQ(after.at("vit.embeddings.position_embeddings").size(1), 36);
  EXPECT_EQ(load_image_model(second / "model").model->options().block.d_model, 16);
  EXPECT_TRUE(data_of_run(second.path()).contains("from"));
}

TEST(TrainImages, RefusesWhatCannotBeTrained) {
  const test::TemporaryFolder folder;
  const auto expect_refused = [&](const std::function<void(ImageTrainOptions&)>& change,
                                  const char* message) {
    auto options = few_steps(folder / "run");
    change(options);
    EXPECT_THROW_WITH(train_images(options), Error, message);
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  expect_refused([](auto& o) { o.augment.size = 32; },
                 "augment.size: 32 pixels, but model.size is 16");
  expect_refused([](auto& o) { o.model.classes = 7; }, "model.classes: 7, but drawn has 10");
  expect_refused([](auto& o) { o.model.patch = 5; }, "do not fill an image of 16");
  expect_refused([](auto& o) { o.train.warmup_epochs = 3; },
                 "train.warmup_epochs: 3 is more than train.epochs, which is 2");
  expect_refused([](auto& o) { o.train.steps.batch = 7; },
                 "train.batch: the 7 images of a step and rank cannot be mixed in pairs");
  expect_refused([](auto& o) { o.train.steps.micro_batch = 3; },
                 "train.micro_batch: 3 images cannot be mixed in pairs");
  expect_refused([](auto& o) { o.precision = "bfloat16"; }, "precision: bfloat16 is for GPUs");
  expect_refused([](auto& o) { o.train.steps.optimizer.groups = {"nothing rate=1"}; }, "nothing");
  expect_refused([&](auto& o) { o.from = (folder / "missing").string(); },
                 "missing: is not the folder of a model");
  save_model(folder / "text", BertForMaskedLM(test::tiny_bert("hydra")));
  expect_refused([&](auto& o) { o.from = (folder / "text").string(); },
                 "is a model of texts; expected one of images");
  expect_refused([&](auto& o) { o.data.path = (folder / "nothing").string(); }, "nothing");
}

}  // namespace
}  // namespace hydramix
