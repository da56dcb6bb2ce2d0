// SPDX-License-Identifier: Apache-2.0
// Whole runs on a GPU: pretraining with captured steps, then fine-tuning of that model. They learn,
// and an interrupted run continues to the same bits. Every mixer trains, named in the options.
#include <csignal>
#include <map>

#include "base/json_reader.h"
#include "base/read_file.h"
#include "hydramix/tensor_file.h"
#include "support/configurations.h"
#include "support/glue.h"
#include "support/gpu.h"
#include "train/finetune.h"
#include "train/pretrain.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

class GpuTraining : public test::OnGpu {
 protected:
  test::TemporaryFolder folder;

  PretrainOptions pretraining(const std::string& out) const {
    PretrainOptions o;
    o.out = (folder / out).string();
    o.device = "cuda";
    o.model.vocab = language_tokenizer().size();
    o.model.layers = 2;
    o.model.dropout = 0.1;
    o.model.block.d_model = 64;
    o.model.block.headdim = 32;
    o.model.block.mixer_options.d_state = 16;
    o.data.evaluation_documents = 40;
    o.data.language_documents = 500;
    o.data.sequences.max_length = 32;
    o.data.sequences.long_documents = "join";  // all of one length, so that steps are captured
    o.train.steps = 30;
    o.train.batch = 32;
    o.train.micro_batch = 16;
    o.train.optimizer.rate = 3e-3;
    o.train.log_every = 1;
    return o;
  }
  FinetuneOptions finetuning(const std::string& out) const {
    FinetuneOptions o;
    o.model = (folder / "whole").string();
    o.task = "SST-2";
    o.data = (folder / "glue").string();
    o.out = (folder / out).string();
    o.device = "cuda";
    o.recipe = "tiny";
    o.batch = 16;
    return o;
  }
  std::string weights(const std::string& run) const {
    return read_file(folder / (run + "/model/model.safetensors"));
  }
};

// Stops a run after `step` steps.
TrainEvents stopping(int64_t step) {
  TrainEvents events;
  events.step = [step](const StepReport& report) {
    if (report.step == step) std::raise(SIGTERM);
  };
  return events;
}

TEST_F(GpuTraining, LearnsAndContinuesToTheSameBits) {
  std::vector<double> losses;
  PretrainEvents events;
  events.step = [&](const StepReport& report) { losses.push_back(report.loss); };
  ASSERT_EQ(pretrain(pretraining("whole"), events).end, Trainer::End::kDone);
  EXPECT_LT(losses.back(), losses.front() - 1);

  PretrainEvents stop;
  static_cast<TrainEvents&>(stop) = stopping(11);
  ASSERT_EQ(pretrain(pretraining("stopped"), stop).end, Trainer::End::kInterrupted);
  ASSERT_EQ(pretrain(pretraining("stopped")).end, Trainer::End::kDone);
  EXPECT_EQ(weights("stopped"), weights("whole"));

  test::write_easy_glue(folder / "glue");
  const auto metrics = finetune(finetuning("task")).result.at("metrics");
  EXPECT_EQ(metrics.at("accuracy"), 1.0);
  ASSERT_EQ(finetune(finetuning("again"), stopping(7)).end, Trainer::End::kInterrupted);
  EXPECT_EQ(finetune(finetuning("again")).result.at("metrics"), metrics);
  EXPECT_EQ(weights("again"), weights("task"));
}

TEST_F(GpuTraining, ProfilesTheDevicesWork) {
  auto options = pretraining("profiled");
  options.train.profile = (folder / "trace.json").string();
  options.train.steps = 4;
  ASSERT_EQ(pretrain(options).end, Trainer::End::kDone);
  std::map<std::string, int> counts;  // of spans that the GPU worked
  const auto trace = read_json(options.train.profile, kResultFile);
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("tid") == 1 && event.at("dur") > 0)
      ++counts[event.at("name")];
  EXPECT_EQ(counts, (std::map<std::string, int>{{"forward, backward", 8}, {"update", 4}}));
}

// Two steps of every mixer, and of `bidirectional` over every core.
class GpuTrainingOf : public GpuTraining,
                      public ::testing::WithParamInterface<test::Configuration> {
 protected:
  // The losses of a run, and the weights that it leaves.
  std::pair<std::vector<double>, std::map<std::string, torch::Tensor>> trained(
      int64_t steps) const {
    auto options = pretraining(std::to_string(steps));
    auto& block = options.model.block;
    block.mixer = GetParam().mixer;
    block.mixer_options = GetParam().options({.qk_dim = 16, .d_state = 16, .max_length = 32});
    options.train.steps = steps;
    // The full rate: some gradients are so small that less would not change a float32.
    options.train.schedule.warmup = 0;
    options.train.schedule.final = 1;
    std::vector<double> losses;
    PretrainEvents events;
    events.step = [&](const StepReport& report) { losses.push_back(report.loss); };
    EXPECT_EQ(pretrain(options, events).end, Trainer::End::kDone);
    return {losses, load_tensors(options.out + "/model/model.safetensors").tensors};
  }
};

TEST_P(GpuTrainingOf, ChangesItsWeightsInEveryStep) {
  const auto [first_losses, first] = trained(1);
  const auto [losses, second] = trained(2);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0], first_losses[0]);
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss));
  ASSERT_EQ(first.size(), second.size());
  for (const auto& [name, weight] : second) {
    EXPECT_TRUE(torch::isfinite(weight).all().item<bool>()) << name;
    EXPECT_FALSE(torch::equal(weight, first.at(name))) << name << " was not trained";
  }
}

INSTANTIATE_TEST_SUITE_P(EveryMixer, GpuTrainingOf, ::testing::ValuesIn(test::every_mixer()),
                         test::configuration_name);

}  // namespace
}  // namespace hydramix
