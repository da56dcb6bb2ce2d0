// SPDX-License-Identifier: Apache-2.0
// hydramix evaluate: measure how well a model predicts masked tokens. For a run it repeats the
// evaluation of its training: the same data, documents, lengths and masks.
#include <cmath>
#include <cstdio>

#include "cli/commands.h"
#include "cli/evaluation_table.h"
#include "data/masked_batch.h"
#include "data/shard_index.h"
#include "data/text_documents.h"
#include "hydramix/error.h"
#include "train/masked_lm.h"
#include "train/pretrain.h"
#include "train/run_folder.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct EvaluateOptions {
  std::string model;
  std::string which = "last";
  std::string data;
  std::string format = "auto", field = "text";
  int64_t documents = 0;
  double mask = 0;
  int64_t max_length = 0;
  std::string long_documents = "auto";
  int64_t micro_batch = 0;
  LanguageOptions language;
  bool json = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{}, "folder of a model or of a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("data", self.data,
      "folder of token shards; file of texts, also .gz, .xz or .zst, or - for stdin; or: language, "
      "validation documents of the built-in one; default: the validation data of the run; needed "
      "for a model");
    v("format", self.format, Choices{"auto", "text", "jsonl", "tsv", "csv"},
      "format of a file of texts: a text per line, JSON lines, or a table whose first line names "
      "its columns; auto: by the file's name, else text");
    v("field", self.field, "field of a JSON line, or column of a table, that holds the text");
    v("documents", self.documents, Range{0, 1LL << 40},
      "maximum documents; 0: as in the run, for a model all, or 2000 of the built-in language");
    v("mask", self.mask, Range{0.0, 1.0},
      "share of the tokens masked; 0: as in the run, 0.15 for a model");
    v("max_length", self.max_length, Range{0, 1 << 24},
      "tokens of a sequence with [CLS] and [SEP]; 0: as in the run, 128 for a model");
    v("long_documents", self.long_documents, Choices{"auto", "truncate", "join"},
      "use the beginning of a longer document; join: cut the text of all documents into "
      "sequences; auto: as in the run, truncate for a model");
    v("micro_batch", self.micro_batch, Range{0, 1 << 24},
      "sequences per batch; 0: as in the run, 32 for a model");
    v("language", self.language, "the built-in language; by default that of the run");
    v("json", self.json, "print the numbers as JSON");
  }
};

void check_model(const std::string& model) {
  HYDRAMIX_CHECK(std::filesystem::is_directory(model), model,
                 ": is no folder; expected the folder of a model or of a run (hydramix pretrain).");
  HYDRAMIX_CHECK_USAGE(
      classifier_folder(model).empty(), model,
      ": is fine-tuned and predicts no masked tokens. hydramix predict measures it "
      "on a file with labels.");
}

// The run's options, or the defaults for a model, with those of the command line.
PretrainOptions evaluated_options(const EvaluateOptions& given) {
  const bool is_run = is_pretraining_run(given.model);
  PretrainOptions options = is_run ? options_of_run(given.model) : PretrainOptions{};
  HYDRAMIX_CHECK_USAGE(
      is_run || !given.data.empty(), "--data is missing: ", given.model,
      " is a model, which does not tell what to evaluate it on. Give --data with a folder of token "
      "shards (hydramix tokenize), a file of texts, or --data language. The folder of a run needs "
      "no --data.");
  auto& data = options.data;
  if (!given.data.empty()) data.validation = given.data;
  HYDRAMIX_CHECK(!given.data.empty() || data.validation == "language" ||
                     std::filesystem::exists(data.validation),
                 given.model, ": the validation data of this run, ", data.validation,
                 ", is not here. Say where it is with --data FOLDER, or run the command in the "
                 "folder that the run was started in.");
  if (given.documents > 0) data.evaluation_documents = given.documents;
  if (given.mask > 0) data.sequences.evaluation_mask = given.mask;
  if (given.max_length > 0) data.sequences.max_length = given.max_length;
  if (given.long_documents != "auto") data.sequences.long_documents = given.long_documents;
  if (given.micro_batch > 0) options.train.micro_batch = given.micro_batch;
  if (to_json(given.language) != to_json(LanguageOptions{})) data.language = given.language;
  validate(options);
  return options;
}

// Whether --data names texts, not a data set: stdin, or any file but the index of a data set.
bool names_texts(const std::string& data) {
  const std::filesystem::path path = data;
  if (data == "language" || path.filename() == kIndexName) return false;
  return data == "-" || (std::filesystem::exists(path) && !std::filesystem::is_directory(path));
}

std::unique_ptr<Documents> open_evaluated(const EvaluateOptions& given, const DataOptions& data,
                                          const Tokenizer& tokenizer) {
  const bool texts = names_texts(given.data);
  HYDRAMIX_CHECK_USAGE(
      texts || (given.format == EvaluateOptions{}.format && given.field == EvaluateOptions{}.field),
      "evaluate: --format and --field describe a file of texts; --data is ",
      given.data.empty() ? "not given" : given.data, ". Leave them out.");
  if (!texts) return open_validation(data, tokenizer);
  TextRows rows({}, {given.data}, {.format = given.format, .field = given.field});
  // A limit on the sequences of joined text is no limit on the texts.
  const bool joined = data.sequences.long_documents == "join";
  auto documents =
      std::make_unique<TextDocuments>(rows, tokenizer, joined ? 0 : data.evaluation_documents,
                                      given.data == "-" ? "stdin" : given.data);
  return sequence_documents(std::move(documents), data.sequences, tokenizer);
}

// The run's own data must still be what it was.
void check_own_data(const EvaluateOptions& given, const Documents& documents) {
  if (!given.data.empty() || given.max_length > 0 || given.long_documents != "auto" ||
      given.documents > 0 || to_json(given.language) != to_json(LanguageOptions{}))
    return;
  const auto data = data_of_run(given.model);
  HYDRAMIX_CHECK(!data.contains("validation") || data["validation"] == documents.fingerprint(),
                 given.model, ": the validation data of this run has changed: its fingerprint is ",
                 documents.fingerprint(), ", data.json has ", data["validation"].dump(),
                 ". Name the data with --data to evaluate on it all the same.");
}

int evaluate(const EvaluateOptions& given) {
  check_model(given.model);
  auto options = evaluated_options(given);
  const auto trained = open_trained_model(given.model, given.which);
  options.data.vocab = (std::filesystem::path(given.model) / "tokenizer.json").string();
  const auto documents = open_evaluated(given, options.data, trained.tokenizer);
  check_own_data(given, *documents);
  const MaskedBatches batches(*documents, trained.tokenizer, options.data.sequences, 0);
  MaskedLm task(trained.model, batches, *documents, batches,
                {.micro_batch = examples_at_once(options.train, torch::kCPU,
                                                 options.data.sequences.max_length),
                 .evaluation_documents = options.data.evaluation_documents});
  const auto result = task.summary(task.evaluate(0, 1));
  HYDRAMIX_CHECK(std::isfinite(result.at("loss").get<double>()), trained.origin.string(),
                 ": the loss of this model is not a finite number: its training diverged, or its "
                 "weights are damaged (hydramix verify).");
  if (given.json)
    std::printf("%s\n", result.dump(2).c_str());
  else
    print_evaluation(result);
  return 0;
}

}  // namespace

Command evaluate_command() {
  return make_command<EvaluateOptions>(
      "evaluate", "measure how well a model predicts masked tokens", evaluate,
      "Examples:\n"
      "  hydramix evaluate runs/hydra\n"
      "  hydramix evaluate runs/hydra/model --data c4/validation\n"
      "  hydramix evaluate runs/hydra --data reviews.jsonl --field body\n"
      "For the folder of a run this repeats the evaluation of its training and gives the same "
      "numbers.");
}

}  // namespace hydramix
