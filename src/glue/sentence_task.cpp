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
  constexpr bool kSingle = false, kPair = true;
  const auto classes = [](const char* name, bool pairs, const Words& labels, const Words& metrics) {
    return TextTask{name, LabelKind::kClasses, pairs, labels, metrics};
  };
  TextTask sts{"STS-B", LabelKind::kScore, kPair, {}, {"pearson", "spearman"}};
  sts.scored = {"spearman"};  // the only score in the code of MosaicBERT, M2 and Hydra
  sts.shows_mean = true;
  return {
      {classes("MNLI", kPair, {"entailment", "neutral", "contradiction"}, accuracy),
       "MNLI",
       {"dev_matched", "dev_mismatched"},
       {"test_matched", "test_mismatched"},
       {"sentence1", "sentence2", "gold_label"}},
      {classes("QNLI", kPair, entailment, accuracy),
       "QNLI",
       dev,
       test,
       {"question", "sentence", "label"}},
      {classes("QQP", kPair, binary, accuracy_f1),
       "QQP",
       dev,
       test,
       {"question1", "question2", "is_duplicate", {}, /*some_torn=*/true}},
      {classes("RTE", kPair, entailment, accuracy),
       "RTE",
       dev,
       test,
       {"sentence1", "sentence2", "label"}},
      {classes("SST-2", kSingle, binary, accuracy), "SST2", dev, test, {"sentence", "", "label"}},
      {classes("MRPC", kPair, binary, accuracy_f1),
       "MRPC",
       dev,
       test,
       {"#1 String", "#2 String", "Quality"}},
      {classes("CoLA", kSingle, binary, {"matthews"}),
       "COLA",
       dev,
       test,
       {"sentence", "", "label", {"source", "label", "mark", "sentence"}}},
      {sts, "STS", dev, test, {"sentence1", "sentence2", "score"}},
      {classes("WNLI", kPair, binary, accuracy),
       "WNLI",
       dev,
       test,
       {"sentence1", "sentence2", "label"},
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
