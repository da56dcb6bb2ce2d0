// SPDX-License-Identifier: Apache-2.0
#include "glue/sentence_task.h"

#include <cctype>

#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Words = std::vector<std::string>;

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '-' && c != '_') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<SentenceTask> all_tasks() {
  const Words binary = {"0", "1"}, entailment = {"entailment", "not_entailment"};
  const Words accuracy = {"accuracy"}, accuracy_f1 = {"accuracy", "f1"};
  const Words dev = {"dev"}, test = {"test"};
  return {
      {"MNLI",
       "MNLI",
       true,
       {"entailment", "neutral", "contradiction"},
       accuracy,
       {"dev_matched", "dev_mismatched"},
       {"test_matched", "test_mismatched"},
       {"sentence1", "sentence2", "gold_label"}},
      {"QNLI", "QNLI", true, entailment, accuracy, dev, test, {"question", "sentence", "label"}},
      {"QQP",
       "QQP",
       true,
       binary,
       accuracy_f1,
       dev,
       test,
       {"question1", "question2", "is_duplicate", {}, /*some_torn=*/true}},
      {"RTE", "RTE", true, entailment, accuracy, dev, test, {"sentence1", "sentence2", "label"}},
      {"SST-2", "SST2", false, binary, accuracy, dev, test, {"sentence", "", "label"}},
      {"MRPC", "MRPC", true, binary, accuracy_f1, dev, test, {"#1 String", "#2 String", "Quality"}},
      {"CoLA",
       "COLA",
       false,
       binary,
       {"matthews"},
       dev,
       test,
       {"sentence", "", "label", {"source", "label", "mark", "sentence"}}},
      {"STS-B",
       "STS",
       true,
       {},
       {"pearson", "spearman"},
       dev,
       test,
       {"sentence1", "sentence2", "score"},
       /*scored=*/{"spearman"}},  // the only score in the code of MosaicBERT, M2 and Hydra
      {"WNLI",
       "WNLI",
       true,
       binary,
       accuracy,
       dev,
       test,
       {"sentence1", "sentence2", "label"},
       /*scored=*/{},
       /*of_the_paper=*/false}};
}

}  // namespace

const std::vector<SentenceTask>& sentence_tasks() {
  static const std::vector<SentenceTask> tasks = all_tasks();
  return tasks;
}

const SentenceTask& sentence_task(std::string_view name) {
  Words names;
  for (const auto& task : sentence_tasks()) {
    if (folded(name) == folded(task.name) || folded(name) == folded(task.heading)) return task;
    names.push_back(task.name);
  }
  const std::string shown(clipped(name, 80));
  throw UsageError(concat("glue: there is no task ", in_quotes(shown), "; expected one of ",
                          join(names), ".", did_you_mean(shown, names)));
}

}  // namespace hydramix
