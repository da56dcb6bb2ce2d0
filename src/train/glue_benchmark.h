// SPDX-License-Identifier: Apache-2.0
// The whole GLUE benchmark as one call: every task, every seed, each a run of fine-tuning in a
// folder of its own, OUT/TASK/seed-N. RTE, MRPC and STS-B start from the MNLI classifier of the
// same seed, as in the paper. Runs that are complete are not repeated.
#pragma once

#include "train/finetune.h"

namespace hydramix {

struct GlueOptions {
  std::string model;
  std::string data = "data/glue";
  std::string out = "runs/glue";
  std::string recipe = "hydra";
  std::vector<std::string> tasks;
  int64_t seeds = 0;
  int64_t seed = 17;
  std::string start = "mnli";
  bool skip_missing = false;
  std::string pooling = "auto";
  int64_t max_length = 0;
  int64_t micro_batch = 32;
  std::string device = "auto";
  std::string precision = "auto";
  double timeout = 120;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model,
      "folder of a pretrained model or run; by default the recipe tiny pretrains one");
    v("data", self.data, "folder of GLUE: a folder for each task");
    v("out", self.out, "folder of the runs and of results.json; existing runs are continued");
    v("recipe", self.recipe, Required{},
      "rates, epochs and lengths of each task: hydra, hydra_24, m2, train_bert, fnet, table2, "
      "small, tiny, or a file like recipes/glue/hydra.yaml");
    v("tasks", self.tasks, "tasks to run; by default the eight of the paper");
    v("seeds", self.seeds, Range{0, 1000},
      "runs of each task; 0: five, as in the paper, and one of the recipe tiny");
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of the first run; each further run adds 1");
    v("start", self.start, Choices{"mnli", "pretrained"},
      "start of RTE, MRPC and STS-B: the MNLI classifier of the same seed, or the model");
    v("skip_missing", self.skip_missing, "skip tasks with missing files");
    v("pooling", self.pooling, Choices{"auto", "cls", "mean"},
      "vector that is classified: that of [CLS], or the mean over the tokens; auto: the recipe's, "
      "or the mean for causal mixers, where [CLS] sees no other token");
    v("max_length", self.max_length, Range{0, 1 << 24},
      "tokens of an example, with [CLS] and [SEP]; 0: the recipe's");
    v("micro_batch", self.micro_batch, Range{1, 1 << 20}, "examples that a rank processes at once");
    fields_of_device(self, v);
    v("timeout", self.timeout, Range{1.0, 1e6}, "seconds to wait for another rank");
  }
};

// A run of the benchmark; rank 0 only.
struct GlueEvents {
  std::function<void(const std::string& message)> message;
  // Called before each run with the run's name and its number out of a total; also before
  // pretraining the model of the recipe tiny ("pretrain"). Returns the events for that run.
  std::function<TrainEvents(const std::string& name, int64_t number, int64_t of)> run;
  std::function<void(const std::string& name, const nlohmann::ordered_json& result)> finished;
};

struct GlueResult {
  Trainer::End end = Trainer::End::kDone;
  // The contents of results.json, including tasks of earlier calls with the same options; null when
  // interrupted: {"model", "fingerprint" of its weights, "recipe", "parameters", "seeds", other
  // options, "tasks": {name: {"heading", "mean", "deviation", "runs": [{"seed", metrics}]}},
  // "average" of the paper's tasks or null, "skipped": [names]}
  nlohmann::ordered_json results;
};

GlueResult run_glue(const GlueOptions& options, const GlueEvents& events = {});

}  // namespace hydramix
