// SPDX-License-Identifier: Apache-2.0
// The tasks of GLUE, and how they are found by name.
#include "glue/sentence_task.h"

#include "hydramix/error.h"
#include "language/glue_examples.h"
#include "support/expect.h"

namespace hydramix {
namespace {

TEST(SentenceTask, AreThoseOfThePapersTablesInTheirOrderAndWnli) {
  std::string names, headings;
  for (const auto& task : sentence_tasks())
    names += task.name + " ", headings += task.heading + " ";
  EXPECT_EQ(names, "MNLI QNLI QQP RTE SST-2 MRPC CoLA STS-B WNLI ");
  EXPECT_EQ(headings, "MNLI QNLI QQP RTE SST2 MRPC COLA STS WNLI ");
}

TEST(SentenceTask, KnowsWhatItAsksAndHowItIsScored) {
  const auto& mnli = sentence_task("MNLI");
  EXPECT_EQ(mnli.outputs(), 3);
  EXPECT_EQ(mnli.dev, (std::vector<std::string>{"dev_matched", "dev_mismatched"}));
  EXPECT_EQ(mnli.test, (std::vector<std::string>{"test_matched", "test_mismatched"}));
  const auto& sts = sentence_task("STS-B");
  EXPECT_TRUE(sts.is_regression());
  EXPECT_EQ(sts.outputs(), 1);
  EXPECT_EQ(sts.metrics, (std::vector<std::string>{"pearson", "spearman"}));
  EXPECT_EQ(sentence_task("CoLA").metrics, (std::vector<std::string>{"matthews"}));
  for (const auto* name : {"QQP", "MRPC"})
    EXPECT_EQ(sentence_task(name).metrics, (std::vector<std::string>{"accuracy", "f1"}));
  for (const auto* name : {"MNLI", "QNLI", "RTE", "SST-2", "WNLI"})
    EXPECT_EQ(sentence_task(name).metrics, (std::vector<std::string>{"accuracy"}));
  for (const auto& task : sentence_tasks()) {
    EXPECT_EQ(task.pairs, task.name != "CoLA" && task.name != "SST-2") << task.name;
    EXPECT_EQ(task.columns.second.empty(), !task.pairs) << task.name;
  }
}

// The generated files and the reader must agree.
TEST(SentenceTask, HasTheLabelsOfTheGeneratedTask) {
  for (const auto& generated : glue_task_list()) {
    const auto& task = sentence_task(generated.name);
    if (task.is_regression()) continue;
    EXPECT_EQ(task.labels, generated.labels) << task.name;
  }
}

TEST(SentenceTask, IsFoundInAnySpelling) {
  for (const auto* name : {"STS-B", "stsb", "sts_b", "STS", "sts"})
    EXPECT_EQ(sentence_task(name).name, "STS-B") << name;
  for (const auto* name : {"SST-2", "sst2", "SST2"})
    EXPECT_EQ(sentence_task(name).name, "SST-2") << name;
  EXPECT_EQ(sentence_task("cola").name, "CoLA");
  EXPECT_EQ(&sentence_task("mnli"), &sentence_tasks().front());
}

TEST(SentenceTask, UnknownNameIsAUsageErrorThatNamesTheNearest) {
  EXPECT_THROW_WITH(sentence_task("MNIL"), UsageError, "no task \"MNIL\"");
  EXPECT_THROW_WITH(sentence_task("MNIL"), UsageError, "QQP, RTE, SST-2, MRPC");
  EXPECT_THROW_WITH(sentence_task("MNIL"), UsageError, "Did you mean 'MNLI'?");
  EXPECT_THROW_WITH(sentence_task(""), UsageError, "no task \"\"");
}

}  // namespace
}  // namespace hydramix
