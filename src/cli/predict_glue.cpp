// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_glue.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/spelling.h"
#include "cli/metrics_table.h"
#include "cli/row_batches.h"
#include "glue/sentences.h"
#include "glue/submission.h"
#include "hydramix/error.h"
#include "tasks/metrics.h"

namespace hydramix {
namespace {

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

}  // namespace

bool is_glue_task(const std::string& name) {
  return std::any_of(sentence_tasks().begin(), sentence_tasks().end(),
                     [&](const SentenceTask& task) { return task.name == name; });
}

int predict_glue_file(const GlueFileRequest& request, const TextClassifier& classifier,
                      const TextJobOptions& job) {
  const auto& path = request.file;
  const auto& task = sentence_task(request.task);
  HYDRAMIX_CHECK_USAGE(
      classifier.labels() == task.labels, "predict: ", request.model, " answers with ",
      classifier.labels().empty() ? "a score" : join(classifier.labels()),
      ", which are not the answers of ", task.name, " (",
      task.labels.empty() ? "a score" : join(task.labels),
      "). Give a model that was trained for it, or its own --task, ", classifier.task(), ".");
  check_kind(request.model, classifier.task(), task);
  auto as_table = job;
  if (as_table.to.empty()) as_table.to = "tsv";  // whatever the name of --out
  ResultFile results("predict", as_table, {"tsv"}, request.model, {path});
  SentenceReader reader(task, path, Labels::kIfThere);
  std::vector<double> predicted, actual;
  results.write(kSubmissionHeader);
  for_each_row_batch<Sentence>(path, reader, results, [&](std::span<const Sentence> rows) {
    std::vector<TextClassifier::Text> texts;
    for (const auto& row : rows)
      texts.push_back({row.first, task.pairs ? std::optional(row.second) : std::nullopt});
    const auto answers = classifier.classify(texts);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      results.write(submission_line(task, rows[i], answers[i].value));
      predicted.push_back(answers[i].value);
      if (!std::isnan(rows[i].label)) actual.push_back(rows[i].label);
    }
    results.flush();
  });
  results.commit();
  if (!reader.torn().empty()) std::fprintf(stderr, "%s\n", left_out(path, reader.torn()).c_str());
  if (actual.size() == predicted.size() && !actual.empty()) {
    const auto metrics = scores(task, predicted, actual);
    std::fputs(metrics_table(metrics).c_str(), stderr);
  }
  return 0;
}

}  // namespace hydramix
