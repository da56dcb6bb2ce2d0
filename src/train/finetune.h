// SPDX-License-Identifier: Apache-2.0
// Fine-tuning of a pretrained encoder on a task of GLUE, or on a user's own files, as one call.
//
// A run is a folder:  config.json    the options, complete
//                     data.json      fingerprints of the files and of the model it starts from
//                     metrics.jsonl  losses and evaluations
//                     model/         the classifier, its tokenizer beside it
//                     predictions/   its answers for the test files, in GLUE's submission format
//                     result.json    its metrics; it exists once the run is complete
//                     checkpoints/   the state, until the run is complete
// The same call continues a stopped run and shows a complete one.
#pragma once

#include "glue/recipes.h"
#include "glue/sentence_task.h"
#include "hydramix/bert_encoder.h"
#include "train/run_options.h"
#include "train/trainer.h"

namespace hydramix {

struct FinetuneOptions {
  std::string model;
  std::string task;
  std::string data = "data/glue";
  std::string dev, text, pair, label, separator = ",", format = "auto";
  double dev_share = 0.1;
  std::string out = "runs/finetune";
  std::string recipe = "hydra";
  int64_t epochs = 0, batch = 0, max_length = 0;
  double rate = 0, decay = -1, clip = 0;
  std::string decay_rule = "recipe";
  std::vector<std::string> groups;
  int64_t micro_batch = 32;
  double dropout = 0.1;
  std::string pooling = "auto";
  std::string keep = "auto";
  int64_t patience = 0;
  double temperature = 0.05;
  bool unfinished = false;
  int64_t seed = 17;
  ScheduleOptions schedule{.warmup = 0.06, .final = 0.0};
  std::string device = "auto";
  std::string precision = "auto";
  std::string profile;
  double timeout = 120;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{},
      "folder of a pretrained model or run, or of a classifier whose encoder to start from");
    v("task", self.task,
      "task of your own file: classes, score, labels (several for a text), tokens (a tag for each "
      "word) or pairs (vectors for embed); by default classes, or score where the labels are "
      "fractions. Task of GLUE: MNLI, QNLI, QQP, RTE, SST-2, MRPC, CoLA, STS-B or WNLI");
    v("data", self.data,
      "your own file: TSV or CSV with a header, JSON lines, or CoNLL for tokens, also as .gz, .zst "
      "or .xz; for a task of GLUE the folder with a folder for each task");
    v("dev", self.dev,
      "file to evaluate on, like data; by default a share of the data is held out");
    v("text", self.text,
      "column of the texts; by default text (tokens: the first column, or tokens in JSON)");
    v("pair", self.pair, "column of the second texts, if a row has two");
    v("label", self.label,
      "column of the labels; by default label (tokens: the last column, or tags in JSON; pairs: "
      "none, so that each text must find its partner)");
    v("separator", self.separator, Required{},
      "text between the labels of a cell that is no JSON list, for the task labels");
    v("format", self.format, Choices{"auto", "tsv", "csv", "jsonl", "conll"},
      "format of your own files; auto: by their names");
    v("dev_share", self.dev_share, Range{0.0, 0.9}, "share of the data to hold out without dev");
    v("out", self.out, "folder of the run; an existing run is continued");
    v("recipe", self.recipe, Required{},
      "values of epochs, batch, max_length, rate, decay, decay_rule, clip, pooling and groups "
      "unless given: hydra, hydra_24, m2, train_bert, fnet, table2, small, tiny, or a file like "
      "recipes/glue/hydra.yaml");
    v("epochs", self.epochs, Range{0, 1 << 20}, "passes over the examples; 0: the recipe's");
    v("batch", self.batch, Range{0, 1 << 20}, "examples per step; 0: the recipe's");
    v("max_length", self.max_length, Range{0, 1 << 24},
      "tokens of an example, with [CLS] and [SEP]; the rest is cut off; 0: the recipe's");
    v("rate", self.rate, Range{0.0, 1e3}, "learning rate at its peak; 0: the recipe's");
    v("decay", self.decay, Range{-1.0, 1.0}, "weight decay at the peak rate; -1: the recipe's");
    v("decay_rule", self.decay_rule, Choices{"recipe", "decoupled", "times_rate"},
      "share of a weight that a step subtracts: decay, or learning rate times decay as in torch's "
      "AdamW");
    v("clip", self.clip, Range{0.0, kInfinity},
      "largest norm of the gradient; inf: not clipped; 0: the recipe's");
    v("groups", self.groups,
      "weights with a rate or decay of their own, as train.optimizer.groups of pretrain; by "
      "default the recipe's");
    v("micro_batch", self.micro_batch, Range{1, 1 << 20},
      "examples that a rank processes at once; for pairs also the candidates among which a text "
      "must find its partner");
    v("dropout", self.dropout, Range{0.0, 0.99}, "dropout before the last layer");
    v("pooling", self.pooling, Choices{"auto", "cls", "mean"},
      "vector that is classified: that of [CLS], or the mean over the tokens; auto: the recipe's, "
      "or the mean for causal mixers, where [CLS] sees no other token");
    v("keep", self.keep, Choices{"auto", "best", "last"},
      "weights to keep: of the epoch with the best score, or of the last one; auto: best, and last "
      "for GLUE, as in the paper");
    v("patience", self.patience, Range{0, 1 << 20},
      "epochs in a row without a better score after which training stops; 0: never");
    v("temperature", self.temperature, Range{1e-3, 1e3},
      "for pairs: temperature, by which similarities are divided");
    v("unfinished", self.unfinished, "start from a run of pretraining that is not complete");
    v("seed", self.seed, Range{0, 1LL << 53},
      "seed of the new weights, the order, dropout and the examples held out");
    v("schedule", self.schedule, "schedule of the learning rate");
    fields_of_device(self, v);
    fields_of_profile(self.profile, v);
    v("timeout", self.timeout, Range{1.0, 1e6}, "seconds to wait for another rank");
  }
};

struct FinetuneResult {
  Trainer::End end = Trainer::End::kDone;
  // {"task", "seed", "parameters", "steps", "seconds": of this call, "metrics": {"loss", ...,
  // "score"}}, of own files also "examples" and "dev"; null when interrupted, and on all ranks but
  // the first.
  nlohmann::ordered_json result;
};

// Whether the task is of GLUE, not of the user's own files.
bool is_glue(const FinetuneOptions& options);

// The options with unset values taken from the recipe. Throws UsageError for invalid options.
FinetuneOptions completed(FinetuneOptions options);
// The options of the trainer for completed options and this many steps.
TrainOptions train_options(const FinetuneOptions& options, int64_t steps);

// The checks of finetune(), which throw before anything is trained.
//
// Reads every file of the task. Returns the fingerprints of the training and dev files, by name.
nlohmann::ordered_json check_task_files(const SentenceTask& task,
                                        const std::filesystem::path& data);
// The model and tokenizer that a run starts from.
struct StartInfo {
  BertOptions encoder;
  nlohmann::ordered_json fingerprints;  // {"model", "tokenizer"}
};
StartInfo start_info(const std::string& model, bool unfinished = false);
// Throws unless the encoder fits the options and these fit the number of ranks.
void check_start(const FinetuneOptions& options, const BertOptions& encoder, int64_t ranks);
// Throws if OUT holds a run with other options or with other data. `data` may have only some of the
// fingerprints.
void check_out(const FinetuneOptions& options, const nlohmann::ordered_json& data);

FinetuneResult finetune(const FinetuneOptions& options, const TrainEvents& events = {});
// The same for existing ranks; `device` is the device of this one.
FinetuneResult finetune(const FinetuneOptions& options, Communicator& communicator,
                        torch::Device device, const TrainEvents& events = {});

}  // namespace hydramix
