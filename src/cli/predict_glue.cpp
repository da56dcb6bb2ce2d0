// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_glue.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/spelling.h"
#include "cli/metrics_table.h"
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
  const auto file = read_sentences(task, path, Labels::kIfThere);
  if (!file.torn.empty()) std::fprintf(stderr, "%s\n", left_out(file).c_str());
  std::vector<double> predicted, actual;
  {
    constexpr std::size_t kAtOnce = 256;
    Progress progress("predict", std::ssize(file.rows), "sentences");
    for (std::size_t first = 0; first < file.rows.size(); first += kAtOnce) {
      std::vector<TextClassifier::Text> texts;
      for (std::size_t i = first; i < std::min(first + kAtOnce, file.rows.size()); ++i) {
        const auto& row = file.rows[i];
        texts.push_back({row.first, task.pairs ? std::optional(row.second) : std::nullopt});
        if (!std::isnan(row.label)) actual.push_back(row.label);
      }
      try {
        for (const auto& answer : classifier.classify(texts)) predicted.push_back(answer.value);
      } catch (const TextError& error) {
        throw Error(
            concat(path, ": line ", file.rows[first + error.index()].line, ": ", error.reason()));
      }
      progress.advance_to(std::ssize(predicted));
    }
  }
  results.write(submission_text(task, file.rows, predicted));
  results.commit();
  if (actual.size() == predicted.size()) {
    const auto metrics = scores(task, predicted, actual);
    std::fputs(metrics_table(metrics).c_str(), stderr);
  }
  return 0;
}

}  // namespace hydramix
