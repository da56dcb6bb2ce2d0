// SPDX-License-Identifier: Apache-2.0
// Files for the GLUE site.
#include "glue/submission.h"

#include <cmath>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Values = std::vector<double>;

std::vector<Sentence> rows(const std::vector<std::string>& ids) {
  std::vector<Sentence> list;
  for (const auto& id : ids) list.push_back({id, "a", "b", NAN, 2});
  return list;
}

TEST(Submission, FilesAreNamedAsTheSiteWants) {
  std::string names;
  for (const auto& task : sentence_tasks())
    for (const auto& part : task.test) names += submission_name(task, part) + " ";
  EXPECT_EQ(names,
            "MNLI-m.tsv MNLI-mm.tsv QNLI.tsv QQP.tsv RTE.tsv SST-2.tsv MRPC.tsv CoLA.tsv STS-B.tsv "
            "WNLI.tsv ");
  EXPECT_THROW_WITH(submission_name(sentence_task("MNLI"), "test"), UsageError,
                    "MNLI has no test file 'test'; expected one of test_matched, test_mismatched");
}

TEST(Submission, LabelsAreThoseOfTheTask) {
  EXPECT_EQ(submission_text(sentence_task("MNLI"), rows({"0", "1", "7"}), Values{2, 0, 1}),
            "index\tprediction\n0\tcontradiction\n1\tentailment\n7\tneutral\n");
  EXPECT_EQ(submission_text(sentence_task("RTE"), rows({"0", "1"}), Values{1, 0}),
            "index\tprediction\n0\tnot_entailment\n1\tentailment\n");
  EXPECT_EQ(submission_text(sentence_task("CoLA"), rows({"0", "1"}), Values{1, 0}),
            "index\tprediction\n0\t1\n1\t0\n");
}

TEST(Submission, ScoresHaveThreeDecimalsAndStayInTheirRange) {
  EXPECT_EQ(submission_text(sentence_task("STS-B"), rows({"0", "1", "2", "3", "4"}),
                            Values{3.14159, -0.2, 5.7, -0.0, 5}),
            "index\tprediction\n0\t3.142\n1\t0.000\n2\t5.000\n3\t0.000\n4\t5.000\n");
}

TEST(Submission, PredictionsThatDoNotFitAreErrors) {
  const auto& qqp = sentence_task("QQP");
  EXPECT_THROW_WITH(submission_text(qqp, rows({"0", "1"}), Values{1}), Error,
                    "1 predictions for 2 rows of QQP");
  for (const double wrong : {2.0, -1.0, 0.5, std::nan("")})
    EXPECT_THROW_WITH(submission_text(qqp, rows({"41"}), Values{wrong}), Error,
                      "the prediction for QQP 41 is");
  EXPECT_THROW_WITH(submission_text(sentence_task("STS-B"), rows({"0"}), Values{NAN}), Error,
                    "expected a finite score");
}

}  // namespace
}  // namespace hydramix
