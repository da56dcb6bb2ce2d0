// SPDX-License-Identifier: Apache-2.0
// hydramix finetune and predict on own files.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "support/tiny_run.h"

namespace hydramix {
namespace {

using test::contains;
using test::run_here;

struct OwnFilesCommand : ::testing::Test {
  static const test::TemporaryFolder& folder() {
    static const test::TemporaryFolder made;
    return made;
  }
  static std::string at(const std::string& name) { return (folder() / name).string(); }
  static void SetUpTestSuite() {
    ASSERT_EQ(run_here("make-data examples --train 40 --out " + at("data")).code, 0);
    test::make_language_run(folder() / "encoder");
  }
  static std::string finetune(const std::string& file, const std::string& more,
                              const std::string& out) {
    return "finetune " + at("encoder") + " --device cpu --recipe tiny --epochs 1 --data " +
           at("data/" + file) + " --out " + at(out) + " " + more;
  }
  static nlohmann::json metrics(const std::string& out) {
    return nlohmann::json::parse(read_file(folder() / (out + "/result.json"))).at("metrics");
  }
  static std::string shown(const std::string& name, double share) {
    char line[64];
    std::snprintf(line, sizeof line, "%-12s %8.2f %%", name.c_str(), 100 * share);
    return line;
  }
  static int64_t lines(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  }
};

// Each kind is trained with the file itself as its development set, so that predict on that file
// must find what finetune measured.
TEST_F(OwnFilesCommand, PredictFindsWhatFinetuneMeasuredForEveryKind) {
  struct Case {
    std::string file, options, metric, out;
  };
  for (const auto& [file, options, metric, out] : std::vector<Case>{
           {"reviews.tsv", "--text review --label verdict", "accuracy", "classes"},
           {"questions.csv", "--text first --pair second --label same", "accuracy", "two"},
           {"similar.jsonl", "--text first --pair second --label score", "pearson", "score"},
           {"purchases.jsonl", "--task labels --label goods", "micro_f1", "labels"},
           {"people.conll", "--task tokens", "accuracy", "tags"},
           {"similar.jsonl", "--task pairs --text first --pair second --label score", "pearson",
            "vectors"}}) {
    const auto trained =
        run_here(finetune(file, options + " --dev " + at("data/" + file), "each-" + out));
    ASSERT_EQ(trained.code, 0) << trained.err;
    const double expected = metrics("each-" + out).at(metric).get<double>();
    EXPECT_TRUE(contains(trained.out, shown(metric, expected))) << trained.out;
    const auto predicted = run_here("predict " + at("each-" + out) + " " + at("data/" + file) +
                                    " --device cpu --to jsonl --out " + at("p.jsonl"));
    ASSERT_EQ(predicted.code, 0) << predicted.err;
    const auto line = predicted.err.find(metric);
    ASSERT_NE(line, std::string::npos) << file << "\n" << predicted.err;
    const double found = std::atof(predicted.err.c_str() + line + metric.size()) / 100;
    // Scores are standardized in training and nearly equal after one epoch, so rounding shows.
    EXPECT_NEAR(found, expected, metric == "pearson" ? 0.01 : 5e-5) << file;
    EXPECT_EQ(lines(read_file(folder() / "p.jsonl")), 40) << file;
  }
  // A name that says nothing about the format.
  std::filesystem::copy_file(folder() / "data/questions.csv", folder() / "questions");
  const auto told = run_here("predict " + at("each-two") + " " + at("questions") +
                             " --device cpu --format csv --out " + at("told.jsonl"));
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_TRUE(contains(told.err, shown("accuracy", metrics("each-two").at("accuracy"))))
      << told.err;
}

TEST_F(OwnFilesCommand, AnswersHaveTheFormOfTheirKind) {
  ASSERT_EQ(run_here(finetune("purchases.jsonl", "--task labels --label goods", "labels")).code, 0);
  const auto several = nlohmann::json::parse(
      run_here("predict " + at("labels") + " --device cpu --to jsonl --text 'Anna found tea .'")
          .out);
  EXPECT_TRUE(several.at("labels").is_array());
  EXPECT_EQ(several.at("probabilities").size(), 8u);
  ASSERT_EQ(run_here(finetune("people.conll", "--task tokens", "tags")).code, 0);
  const auto tags = run_here("predict " + at("tags") + " --device cpu --text 'anna found tea'").out;
  EXPECT_EQ(lines(tags), 4);
  EXPECT_TRUE(tags.starts_with("anna\t")) << tags;
  const auto json = nlohmann::json::parse(
      run_here("predict " + at("tags") + " --device cpu --to jsonl --text 'anna found tea'").out);
  EXPECT_EQ(json.at("tags").size(), 3u);
  EXPECT_TRUE(json.contains("entities"));
  write_file(folder() / "two.txt", "anna found tea\n\ntom ran\n");
  const auto two = run_here("predict " + at("tags") + " --device cpu " + at("two.txt"));
  EXPECT_EQ(lines(two.out), 4 + 3) << two.err;
  EXPECT_TRUE(two.out.starts_with(tags)) << two.out;
  write_file(folder() / "bad.txt", "anna\n\n\xff\n");
  const auto bad = run_here("predict " + at("tags") + " --device cpu " + at("bad.txt"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(contains(bad.err, at("bad.txt") + ": line 3: ")) << bad.err;
  std::filesystem::copy_file(folder() / "data/people.conll", folder() / "people.txt");
  const std::string people = " " + at("people.txt") + " --device cpu --format conll";
  const auto told = run_here("predict " + at("tags") + people);
  EXPECT_EQ(
      told.out,
      run_here("predict " + at("tags") + " " + at("data/people.conll") + " --device cpu").out);
  EXPECT_TRUE(contains(told.err, "accuracy")) << told.err;
  // Sentences are read as they are needed: those before a torn line get their tags.
  std::string many;
  for (int i = 0; i < 300; ++i) many += "anna O\n\n";
  write_file(folder() / "torn.conll", many + "anna\n");
  const auto torn = run_here("predict " + at("tags") + " --device cpu " + at("torn.conll"));
  EXPECT_EQ(torn.code, 1);
  EXPECT_TRUE(contains(torn.err, at("torn.conll") + ": line 601: ")) << torn.err;
  EXPECT_EQ(lines(torn.out), 2 * 256) << torn.out;
  const auto other = run_here("predict " + at("labels") + people);
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(contains(other.err, "answers for whole texts")) << other.err;
  const auto table =
      run_here("predict " + at("tags") + " " + at("data/reviews.tsv") + " --format tsv");
  EXPECT_EQ(table.code, 2);
  EXPECT_TRUE(contains(table.err, "expected conll or jsonl")) << table.err;
  ASSERT_EQ(run_here(finetune("answers.csv",
                              "--task pairs --text question --pair answer --batch 8 "
                              "--micro-batch 8",
                              "vectors"))
                .code,
            0);
  const auto similar = run_here("predict " + at("vectors") +
                                " --device cpu --text 'where is anna ?' --second 'anna'");
  ASSERT_EQ(similar.code, 0) << similar.err;
  EXPECT_LE(std::stod(similar.out), 1.0);
  const auto single =
      run_here("predict " + at("vectors") + " --device cpu --text 'where is anna ?'");
  EXPECT_EQ(single.code, 2);
  EXPECT_TRUE(contains(single.err, "which has pairs")) << single.err;
  // The vectors are what embed is for.
  write_file(folder() / "lines.txt", "anna is here .\nwhere is tom ?\n");
  const auto vectors =
      run_here("embed " + at("lines.txt") + " --device cpu --normalize --model " + at("vectors"));
  ASSERT_EQ(vectors.code, 0) << vectors.err;
  EXPECT_EQ(lines(vectors.out), 2);
}

TEST_F(OwnFilesCommand, ErrorsAreUsageOrFailure) {
  const auto column = run_here(finetune("reviews.tsv", "--text sentence --label verdict", "no"));
  EXPECT_EQ(column.code, 2);
  EXPECT_TRUE(contains(column.err, "only review, verdict")) << column.err;
  const auto number =
      run_here(finetune("reviews.tsv", "--text review --label verdict --task score", "no"));
  EXPECT_EQ(number.code, 1);
  EXPECT_TRUE(contains(number.err, "reviews.tsv: line 2: verdict is")) << number.err;
  const auto both = run_here("finetune " + at("encoder") + " --model " + at("encoder"));
  EXPECT_EQ(both.code, 2);
  EXPECT_TRUE(contains(both.err, "unexpected argument")) << both.err;
  EXPECT_FALSE(std::filesystem::exists(folder() / "no"));
}

}  // namespace
}  // namespace hydramix
