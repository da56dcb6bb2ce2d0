// SPDX-License-Identifier: Apache-2.0
// The rule of the findings on invented numbers, in all its answers.
#include "reproduce/findings.h"

#include <cmath>

#include "support/expect.h"

namespace hydramix {
namespace {

TEST(Findings, AComparisonIsAConfidenceInterval) {
  // t(2) = 4.303, deviation 0.1: the half width is 4.303 * 0.1 / sqrt(3) = 0.2484.
  const auto yes = compare("", {0.2, 0.3, 0.4});
  EXPECT_NEAR(yes.difference.mean, 0.3, 1e-12);
  EXPECT_NEAR(yes.difference.deviation, 0.1, 1e-12);
  EXPECT_NEAR(yes.half_width, 0.2484, 1e-4);
  EXPECT_EQ(yes.answer, Answer::kYes);
  EXPECT_EQ(compare("", {-0.2, -0.3, -0.4}).answer, Answer::kNo);
  EXPECT_EQ(compare("", {0.1, 0.2, 0.3}).answer, Answer::kNotSeparated);
  EXPECT_EQ(compare("", {}).answer, Answer::kNotMeasured);
}

TEST(Findings, OneSeedSeparatesNothing) {
  EXPECT_EQ(compare("", {100}).answer, Answer::kNotSeparated);
  EXPECT_EQ(compare("", {1, 1}).answer, Answer::kYes) << "no spread at all";
}

TEST(Findings, SeveralComparisonsAreTrueTogether) {
  const auto yes = compare("", {1, 1.1}), no = compare("", {-1, -1.1}), open = compare("", {1, -1});
  EXPECT_EQ(all_of({yes, yes}), Answer::kYes);
  EXPECT_EQ(all_of({yes, open}), Answer::kNotSeparated);
  EXPECT_EQ(all_of({yes, open, no}), Answer::kNo);
  EXPECT_EQ(all_of({yes, compare("", {})}), Answer::kNotMeasured);
  EXPECT_EQ(all_of({}), Answer::kNotMeasured);
}

class FindingsOfTable : public ::testing::Test {
 protected:
  FindingsOfTable() { plan_.seeds = 3; }

  void set_losses(const std::string& row, double loss, double step = 0.001) {
    for (int64_t seed = 1; seed <= 3; ++seed)
      results_[row].numbers["loss"][seed] = loss + step * static_cast<double>(seed % 2);
  }
  void set_paper_losses(const std::string& table) {
    plan_.tables = {&paper_table(table)};
    for (const auto& row : plan_.tables.front()->rows)
      if (row.published.contains("loss") && !row.name.empty())
        set_losses(row.name, row.published.at("loss"));
  }
  Answer answer(const std::string& beginning) {
    for (const auto& finding : findings(plan_, results_))
      if (finding.statement.starts_with(beginning)) return finding.answer;
    ADD_FAILURE() << "there is no finding " << beginning;
    return Answer::kNotMeasured;
  }

  ReproducePlan plan_;
  AllResults results_;
};

// Everything that the paper states holds of its own numbers.
TEST_F(FindingsOfTable, ThePapersNumbersHaveItsFindings) {
  for (const std::string table : {"table2", "table3", "table4"}) {
    results_.clear();
    set_paper_losses(table);
    const auto all = findings(plan_, results_);
    EXPECT_GE(all.size(), 2u);
    for (const auto& finding : all)
      EXPECT_EQ(finding.answer, Answer::kYes) << table << ": " << finding.statement;
  }
}

TEST_F(FindingsOfTable, AccuraciesAreBetterWhenTheyAreHigher) {
  plan_.tables = {&paper_table("table5")};
  for (const auto& row : plan_.tables.front()->rows)
    for (const std::string column : {"top1", "top1_ema"})
      for (int64_t seed = 1; seed <= 3; ++seed)
        results_[row.name].numbers[column][seed] = row.published.at(column);
  EXPECT_EQ(answer("Hydra beats Mamba on images"), Answer::kYes);
  EXPECT_EQ(answer("Hydra has the highest top-1 accuracy of averaged"), Answer::kYes);
  for (int64_t seed = 1; seed <= 3; ++seed) results_["table5/vit-b"].numbers["top1"][seed] = 90;
  EXPECT_EQ(answer("Hydra has the highest top-1 accuracy"), Answer::kNo);
}

TEST_F(FindingsOfTable, AFamilyThatDisagreesIsNoWhileAllTogetherAreYes) {
  set_paper_losses("table2");
  set_losses("table2/cauchy_dd", 2.5);  // its twin has 2.25
  EXPECT_EQ(answer("Sequence-aligned matrices beat"), Answer::kYes);
  EXPECT_EQ(answer("Every sequence-aligned matrix"), Answer::kNo);
  EXPECT_EQ(answer("Cauchy DD is near"), Answer::kNo);
  set_losses("table2/cauchy_dd", 5);
  EXPECT_EQ(answer("Sequence-aligned matrices beat"), Answer::kNo);
  set_losses("table2/quasiseparable_dd", 1.87);
  EXPECT_EQ(answer("Quasiseparable DD has the lowest"), Answer::kNotSeparated);
}

TEST_F(FindingsOfTable, MissingRowsAreNotMeasured) {
  set_paper_losses("table3");
  results_.erase("table3/mamba");
  EXPECT_EQ(answer("Hydra beats Mamba"), Answer::kNotMeasured);
  EXPECT_EQ(answer("Quasi has the lowest"), Answer::kYes);
  EXPECT_EQ(answer("At the paper's size"), Answer::kYes) << "counted without training";
  results_["table3/mamba"].numbers["loss"][2] = 3;
  EXPECT_EQ(answer("Hydra beats Mamba"), Answer::kNotSeparated) << "one pair of seeds";
}

}  // namespace
}  // namespace hydramix
