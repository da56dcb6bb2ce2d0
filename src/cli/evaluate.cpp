// SPDX-License-Identifier: Apache-2.0
// hydramix evaluate: measure how well a model predicts masked tokens.
#include <cstdio>

#include "base/json_reader.h"
#include "cli/commands.h"
#include "cli/evaluation_table.h"
#include "data/masked_batch.h"
#include "data/token_shards.h"
#include "language/language_documents.h"
#include "train/masked_lm.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct EvaluateOptions {
  std::string model;
  std::string which = "last";
  std::string data = "language";
  int64_t documents = 0;
  double mask = 0.15;
  int64_t max_length = 128;
  std::string long_documents = "truncate";
  int64_t micro_batch = 32;
  LanguageOptions language;
  bool json = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{}, "folder of a model or of a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("data", self.data, Required{},
      "folder of token shards, or: language, validation documents of the built-in one");
    v("documents", self.documents, Range{0, 1LL << 40},
      "maximum documents; 0: all, or 2000 of the built-in language");
    v("mask", self.mask, Range{0.001, 1.0}, "share of the tokens masked");
    v("max_length", self.max_length, Range{3, 1 << 24},
      "tokens of a sequence with [CLS] and [SEP]");
    v("long_documents", self.long_documents, Choices{"truncate", "join"},
      "use the beginning of a longer document; join: cut the text of all documents into sequences");
    v("micro_batch", self.micro_batch, Range{1, 1 << 24}, "sequences per batch");
    v("language", self.language, "the built-in language; by default that of the run");
    v("json", self.json, "print the numbers as JSON");
  }
};

// The language of the run, unless the options set another.
LanguageOptions language_of(const EvaluateOptions& options) {
  LanguageOptions language = options.language;
  const auto config = std::filesystem::path(options.model) / "config.json";
  if (to_json(language) != to_json(LanguageOptions{}) || !std::filesystem::exists(config))
    return language;
  const auto run = try_parse_json(read_file(config, kConfigFile));
  if (run.is_object() && run.contains("data") && run["data"].contains("language"))
    parse_yaml(language, run["data"]["language"].dump(), config.string());
  return language;
}

std::unique_ptr<Documents> open_shards(const EvaluateOptions& options, const Tokenizer& tokenizer) {
  auto shards = std::make_unique<TokenShards>(options.data);
  shards->check_tokenizer(tokenizer.fingerprint(), "the tokenizer of " + options.model);
  return shards;
}

int evaluate(const EvaluateOptions& options) {
  const auto trained = open_trained_model(options.model, options.which);
  std::unique_ptr<Documents> documents;
  if (options.data == "language")
    documents = std::make_unique<LanguageDocuments>(
        language_of(options), Split::kValidation, evaluated_language_documents(options.documents));
  else
    documents = open_shards(options, trained.tokenizer);
  SequenceOptions sequences;
  sequences.max_length = options.max_length;
  sequences.evaluation_mask = options.mask;
  sequences.long_documents = options.long_documents;
  documents = sequence_documents(std::move(documents), sequences, trained.tokenizer);
  const MaskedBatches batches(*documents, trained.tokenizer, sequences, 0);
  MaskedLm task(trained.model, batches, *documents, batches,
                {.micro_batch = options.micro_batch, .evaluation_documents = options.documents});
  const auto result = task.summary(task.evaluate(0, 1));
  if (options.json)
    std::printf("%s\n", result.dump(2).c_str());
  else
    print_evaluation(result);
  return 0;
}

}  // namespace

Command evaluate_command() {
  return make_command<EvaluateOptions>("evaluate", "how well a model predicts masked tokens",
                                       evaluate);
}

}  // namespace hydramix
