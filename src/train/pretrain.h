// SPDX-License-Identifier: Apache-2.0
// Masked-language-model pretraining as one call. The defaults are the paper's recipe (MosaicBERT's
// data and schedule, M2's hyperparameters).
//
// A run is a folder:  config.json     the options, complete: the run can be repeated from it alone
//                     data.json       fingerprints of the data
//                     tokenizer.json  the tokenizer
//                     metrics.jsonl   losses and rates, step by step
//                     checkpoints/    the state; the same call continues from it
//                     model/          the trained model, its tokenizer beside it
#pragma once

#include "data/masked_batch.h"
#include "hydramix/bert.h"
#include "language/language.h"
#include "train/run_options.h"
#include "train/trainer.h"

namespace hydramix {

struct DataOptions {
  std::string train = "language";
  std::string validation = "language";
  std::string vocab;
  bool cased = false;
  int64_t evaluation_documents = 0;
  int64_t language_documents = 1 << 20;
  LanguageOptions language;
  SequenceOptions sequences;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("train", self.train, Required{},
      "folder of token shards (hydramix tokenize), or: language, the built-in one");
    v("validation", self.validation, Required{},
      "the same, for evaluation; the built-in language gives documents that training does not see");
    v("vocab", self.vocab,
      "vocab.txt or tokenizer.json that the shards were made with; the language has its own");
    v("cased", self.cased, "vocab.txt is of a cased tokenizer");
    v("evaluation_documents", self.evaluation_documents, Range{0, 1LL << 40},
      "maximum documents of an evaluation; 0: all, or 2000 of the built-in language");
    v("language_documents", self.language_documents, Range{1, 1LL << 40},
      "documents of the built-in language in an epoch");
    v("language", self.language, "the built-in language");
    v("sequences", self.sequences, "from documents to sequences");
  }
};

struct PretrainOptions {
  std::string out = "runs/pretrain";
  std::string device = "auto";
  std::string precision = "auto";
  BertOptions model;
  DataOptions data;
  TrainOptions train;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    fields_of_run(self, v);
    fields_of_profile(self.train.profile, v);
    v("model", self.model, "the encoder");
    v("data", self.data, "the training data");
    v("train", self.train, "the training");
  }
};

struct PretrainResult {
  Trainer::End end = Trainer::End::kDone;
  int64_t parameters = 0;
  nlohmann::ordered_json evaluation;  // the last one; null if there was none
};

// Callbacks before and during a run, on rank 0 only.
struct PretrainEvents : TrainEvents {
  std::function<void(int64_t parameters)>
      building;  // before the model is made, which may take long
  // Before the first step: the number of parameters, and the rate of matrix products on this
  // machine.
  std::function<void(int64_t parameters, double gemm_flops_per_second)> ready;
};

// Throws an Error if the run ends without a usable model (Trainer::run); there is no model/ then.
PretrainResult pretrain(const PretrainOptions& options, const PretrainEvents& events = {});

// Whether the folder is a run of pretraining.
bool is_pretraining_run(const std::filesystem::path& folder);

// The options of such a run, complete.
PretrainOptions options_of_run(const std::filesystem::path& folder);

// The validation documents that these options name, as an evaluation of the run sees them.
std::unique_ptr<Documents> open_validation(const DataOptions& data, const Tokenizer& tokenizer);

}  // namespace hydramix
