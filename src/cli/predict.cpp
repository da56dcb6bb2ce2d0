// SPDX-License-Identifier: Apache-2.0
// hydramix predict: a classifier's answers for the sentences of a file.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/atomic_file.h"
#include "base/spelling.h"
#include "cli/commands.h"
#include "cli/metrics_table.h"
#include "cli/progress.h"
#include "glue/sentences.h"
#include "glue/submission.h"
#include "hydramix/error.h"
#include "hydramix/text_classifier.h"
#include "tasks/metrics.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct PredictOptions {
  std::string model, file, task, out;
  int64_t max_length = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{},
      "folder of a classifier (hydramix finetune makes it: OUT/model), or of its run");
    v("file", self.file, Positional{}, Required{},
      "sentences as GLUE distributes them for the task, with or without labels");
    v("task", self.task, "task that the file belongs to; by default that of the model");
    v("out", self.out, "file to write; by default standard output");
    v("max_length", self.max_length, Range{0, 1 << 24},
      "tokens of an example, with [CLS] and [SEP]; the rest is cut off; 0: as in training");
  }
};

// Refuses single sentences for a classifier of pairs, and the reverse. Another task with the same
// answers is accepted, with a message.
void check_kind(const std::string& model, const std::string& trained_for,
                const SentenceTask& task) {
  if (trained_for == task.name) return;
  for (const auto& own : sentence_tasks())
    HYDRAMIX_CHECK_USAGE(own.name != trained_for || own.pairs == task.pairs, "predict: ", model,
                         " was trained for ", own.name, ", which has ",
                         own.pairs ? "pairs of sentences" : "single sentences", "; ", task.name,
                         " has ", task.pairs ? "pairs" : "single ones",
                         ". Give a model that was trained for it.");
  if (!trained_for.empty())
    std::fprintf(stderr, "%s was trained for %s, not for %s\n", model.c_str(), trained_for.c_str(),
                 task.name.c_str());
}

int predict(const PredictOptions& options) {
  const auto folder = classifier_folder(options.model);
  const auto classifier = TextClassifier::open(
      folder.empty() ? std::filesystem::path(options.model) : folder, options.max_length);
  const auto& task = sentence_task(options.task.empty() ? classifier.task() : options.task);
  HYDRAMIX_CHECK_USAGE(
      classifier.labels() == task.labels, "predict: ", options.model, " answers with ",
      classifier.labels().empty() ? "a score" : join(classifier.labels()),
      ", which are not the answers of ", task.name, " (",
      task.labels.empty() ? "a score" : join(task.labels),
      "). Give a model that was trained for it, or its own --task, ", classifier.task(), ".");
  check_kind(options.model, classifier.task(), task);
  const auto file = read_sentences(task, options.file, Labels::kIfThere);
  if (!file.torn.empty()) std::fprintf(stderr, "%s\n", left_out(file).c_str());
  if (!options.out.empty()) {
    const AtomicFile probe(options.out);  // fails before the work if the file cannot be written
  }
  std::vector<double> predicted, actual;
  {
    constexpr std::size_t kAtOnce = 256;
    Progress progress("predict", std::ssize(file.rows), "sentences");
    for (std::size_t first = 0; first < file.rows.size(); first += kAtOnce) {
      std::vector<TextClassifier::Text> texts;
      for (std::size_t i = first; i < std::min(first + kAtOnce, file.rows.size()); ++i) {
        const auto& row = file.rows[i];
        texts.push_back({row.first, task.pairs ? std::optional(row.second) : std::nullopt});
        if (!std::isnan(file.rows[i].label)) actual.push_back(file.rows[i].label);
      }
      for (const auto& answer : classifier.classify(texts)) predicted.push_back(answer.value);
      progress.advance_to(std::ssize(predicted));
    }
  }
  const auto text = submission_text(task, file.rows, predicted);
  if (options.out.empty())
    std::fputs(text.c_str(), stdout);
  else
    write_file(options.out, text);
  if (actual.size() == predicted.size()) {
    const auto metrics = scores(task, predicted, actual);
    std::fputs(metrics_table(metrics).c_str(), stderr);
  }
  return 0;
}

}  // namespace

Command predict_command() {
  return make_command<PredictOptions>(
      "predict", "classify the sentences of a file", predict,
      "  hydramix predict runs/mrpc --task MRPC glue/MRPC/test.tsv --out MRPC.tsv\n"
      "Writes a line for each row, 'index' and 'prediction', in the format of GLUE's site. If the "
      "file has labels, prints the metrics too.");
}

}  // namespace hydramix
