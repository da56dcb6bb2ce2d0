// SPDX-License-Identifier: Apache-2.0
// Whole runs on a GPU: pretraining with captured steps, then fine-tuning of that model. They learn,
// and an interrupted run continues to the same bits.
#include <csignal>

#include "base/read_file.h"
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

}  // namespace
}  // namespace hydramix
