// SPDX-License-Identifier: Apache-2.0
// Training a model on associative recall (data/recall.h) as one call.
//
// A run is a folder:  config.json    the options, complete
//                     data.json      the fingerprint of the task
//                     metrics.jsonl  losses and evaluations
//                     result.json    the result; it exists once the run is complete
//                     checkpoints/   the state, until the run is complete
// The same call continues a stopped run and returns the result of a complete one.
#pragma once

#include "data/recall.h"
#include "hydramix/bert.h"
#include "train/run_options.h"
#include "train/trainer.h"

namespace hydramix {

struct RecallTrainOptions {
  std::string out = "runs/recall";
  std::string device = "auto";
  std::string precision = "float32";
  BertOptions model;
  RecallOptions recall;
  TrainOptions train;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    fields_of_run(self, v);
    fields_of_profile(self.train.profile, v);
    v("model", self.model, "the encoder; its vocabulary is that of the task");
    v("recall", self.recall, "the task");
    v("train", self.train, "the training");
  }
};

struct RecallResult {
  Trainer::End end = Trainer::End::kDone;
  // {"mixer", "length", "pairs", "seed", "parameters", "flops_per_token": forward, or null,
  // "steps", "seconds", "loss", "accuracy"}; null when interrupted, and on all ranks but the first.
  nlohmann::ordered_json result;
};

RecallResult train_recall(const RecallTrainOptions& options, const TrainEvents& events = {});

// The result of the complete run in a folder; null if there is none.
nlohmann::ordered_json recall_result(const std::filesystem::path& folder);

}  // namespace hydramix
