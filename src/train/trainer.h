// SPDX-License-Identifier: Apache-2.0
// Training: batches by accumulation over micro-batches and ranks, clipping, AdamW, a schedule,
// evaluation, checkpoints, and exact resumption after any interruption.
//
// A step is a pure function of the state before it, the step's number and the options. A checkpoint
// holds the whole state. So a run that was killed and restarted reaches the same bits as an
// uninterrupted one on the same number of ranks; on another number it differs by the rounding of
// the reduction.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "dist/communicator.h"
#include "dist/gradient_reducer.h"
#include "hydramix/options.h"
#include "io/tensorboard.h"
#include "ops/host_copy.h"
#include "train/adamw.h"
#include "train/checkpoint.h"
#include "train/metrics.h"
#include "train/profile.h"
#include "train/schedule.h"
#include "train/task.h"

namespace hydramix {

struct TrainOptions {
  int64_t steps = 70000;
  int64_t batch = 4096;
  int64_t micro_batch = 0;
  int64_t seed = 17;
  AdamWOptions optimizer;
  ScheduleOptions schedule;
  int64_t log_every = 10;
  int64_t evaluate_every = 1000;
  int64_t checkpoint_every = 1000;
  int64_t keep = 3;
  int64_t most_skipped = 10;
  // Stops after this many evaluations without improvement; 0: never. Set only by finetune.
  int64_t patience = 0;
  int64_t bucket_megabytes = 25;
  double timeout = 120;
  bool tensorboard = false;
  std::string profile;  // a file, or empty; an option of the run

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("steps", self.steps, Range{1, 1LL << 40}, "steps of the optimizer");
    fields_of_step(self, v);
    v("schedule", self.schedule, "of the learning rate");
    v("evaluate_every", self.evaluate_every, Range{1, 1LL << 40},
      "steps between evaluations; there is always one at the end");
    fields_of_run(self, v);
  }

  // Parts of the above, for options that count in epochs.
  template <class Self, class Visitor>
  static void fields_of_step(Self& self, Visitor& v) {
    v("batch", self.batch, Range{1, 1 << 24},
      "examples per step, over all ranks and accumulations");
    v("micro_batch", self.micro_batch, Range{0, 1 << 24},
      "examples that a rank processes at once; 0: 32, on a GPU as many as have 32768 tokens");
    v("seed", self.seed, Range{0, 1LL << 53},
      "seed of the weights, the order of the data and all random choices of a step");
    v("optimizer", self.optimizer, "AdamW");
  }
  template <class Self, class Visitor>
  static void fields_of_run(Self& self, Visitor& v) {
    v("log_every", self.log_every, Range{1, 1 << 30}, "steps between lines of metrics.jsonl");
    v("checkpoint_every", self.checkpoint_every, Range{1, 1LL << 40},
      "steps between checkpoints; the last step always writes one");
    v("keep", self.keep, Range{1, 1 << 20}, "checkpoints to keep, besides the best");
    v("most_skipped", self.most_skipped, Range{1, 1 << 20},
      "consecutive steps without a finite loss and gradient after which training stops");
    v("bucket_megabytes", self.bucket_megabytes, Range{1, 1 << 20},
      "gradients that are reduced together during backward");
    v("timeout", self.timeout, Range{1.0, 1e6}, "seconds to wait for another rank");
    v("tensorboard", self.tensorboard, "write TensorBoard event files too");
  }
};

// options.micro_batch; where that is 0, as many examples of `tokens` tokens as keep the device
// busy.
int64_t examples_at_once(const TrainOptions& options, torch::Device device, int64_t tokens);

// Reported after a step.
struct StepReport {
  int64_t step = 0, steps = 0;  // done, total
  double loss = 0, accuracy = 0, norm = 0, rate = 0;
  double tokens_per_second = 0, flops_per_second = 0;
  int64_t skipped = 0;
};

// Reported before each micro-batch of rank 0: a step of a large model may take minutes.
struct MicroBatchReport {
  int64_t step = 0, steps = 0;      // done, total
  int64_t done = 0, sequences = 0;  // of this step, on this rank
};

// Work since `begin`.
struct Throughput {
  double tokens = 0, flops = 0;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

struct TrainEvents {
  std::function<void(int64_t step)> started;  // with the steps already done
  std::function<void(const MicroBatchReport&)> micro_batch;
  std::function<void(const StepReport&)> step;
  std::function<void(int64_t step, const nlohmann::ordered_json&)> evaluation;
  std::function<void(const std::string&)> message;  // rank 0 only
};

class Trainer {
 public:
  // `folder` gets checkpoints/ and metrics.jsonl. The batch must be a multiple of the ranks.
  Trainer(Task& task, const TrainOptions& options, Communicator& communicator,
          std::filesystem::path folder, TrainEvents events);

  ~Trainer() { task_.profile = nullptr; }

  // Reads the numbers of a step during the next one, so that the host prepares work while the
  // device computes. The default on a GPU; the results are the same.
  void read_late(bool late) { late_ = late; }

  enum class End { kDone, kInterrupted };
  // Runs from the newest sound checkpoint, or from the model as it is, to the last step or a
  // signal. Throws an Error if the model learned nothing: the last evaluation is not finite, or
  // most steps were skipped. The last step then has no checkpoint.
  End run();
  // Takes the weights of the best evaluation and evaluates them again. Call after run().
  nlohmann::ordered_json take_best();

  FlatParameters& parameters() { return parameters_; }
  AdamW& optimizer() { return optimizer_; }

 private:
  bool is_first() const { return communicator_.rank() == 0; }
  // Whether the last step is done or patience has run out.
  bool is_over() const;
  bool is_due() const;
  void say(const std::string& message) const;
  Checkpoint snapshot();
  void resume();
  // A step whose work was launched, and whose numbers the device may not have computed yet.
  struct Launched {
    int64_t step;      // its number
    double share;      // of the peak rate
    LateNumbers sums;  // see kSums
  };
  std::optional<torch::Tensor> accumulate(int64_t step);
  void update(const torch::Tensor& sums);
  bool finish_step();
  void report(const Launched& done, const std::vector<double>& sums);
  void count_skipped(int64_t step, double norm);
  std::string find_fault(int64_t step);
  void write_metrics(nlohmann::ordered_json line);
  nlohmann::ordered_json evaluate(bool tell);
  nlohmann::ordered_json evaluate_weights(bool average);
  void check_learned(const nlohmann::ordered_json& summary) const;
  void evaluate_and_save(bool leaving);

  Task& task_;
  TrainOptions options_;
  Communicator& communicator_;
  std::filesystem::path folder_;
  TrainEvents events_;
  FlatParameters parameters_;
  AdamW optimizer_;
  GradientReducer reducer_;
  // On rank 0 only, which does all the writing.
  std::unique_ptr<CheckpointFolder> checkpoints_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::unique_ptr<Profile> profile_;

  int64_t step_ = 0;         // steps done
  int64_t saved_step_ = -1;  // of the newest checkpoint
  int64_t evaluated_ = 0;    // step of the last evaluation
  int64_t skipped_ = 0, skipped_in_a_row_ = 0;
  double best_loss_ = kInfinity;  // the least criterion of the task
  int64_t stale_ = 0;             // evaluations since then
  bool interrupted_ = false;      // a rank got a signal

  bool late_;
  std::optional<Launched> launched_;
  Throughput window_;  // since the last line of metrics
};

}  // namespace hydramix
