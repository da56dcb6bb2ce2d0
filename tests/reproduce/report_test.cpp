// SPDX-License-Identifier: Apache-2.0
// The report from invented results: its contents in all formats, and the page in a browser.
#include "reproduce/report.h"

#include <cstdlib>
#include <set>

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "reproduce/reproduce.h"
#include "support/command.h"
#include "support/expect.h"
#include "support/models.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;
using test::contains;

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    plan_.tables = {&paper_table("table3"), &paper_table("table4")};
    plan_.out = folder_.path();
    plan_.data.glue_tasks = {"CoLA", "SST-2"};
    double loss = 0.5;
    for (const auto* row : {"table3/hydra", "table3/add", "table3/mamba"}) {
      for (int64_t seed = 1; seed <= 3; ++seed) add_result(row, seed, loss);
      loss += 0.25;
    }
  }

  void add_result(const std::string& row, int64_t seed, double loss) {
    const auto folder = row_folder(plan_, row, seed);
    std::filesystem::create_directories(folder);
    const double own = loss + 0.01 * static_cast<double>(seed);
    write_file(folder / "pretrain.json", Json{{"version", "9.8.7"},
                                              {"parameters", 79000},
                                              {"steps", 750},
                                              {"loss", own},
                                              {"accuracy", 61.25},
                                              {"tokens_per_second", 1234},
                                              {"curve", {{75, 2 * own}, {750, own}}}}
                                             .dump());
    write_file(folder / "glue.json",
               Json{{"version", "9.8.7"},
                    {"scores", {{"COLA", 40.5}, {"SST2", 90.25}, {"glue_some", 65.375}}}}
                   .dump());
  }

  test::TemporaryFolder folder_;
  ReproducePlan plan_;
};

TEST_F(ReportTest, HasTheNumbersOfEveryFormat) {
  const auto report = make_report(plan_, "9.8.7");
  EXPECT_TRUE(
      contains(report_csv(report), "table3,table3/hydra,Quasi (Hydra),,loss,1.66,0.52,0.01,3\n"))
      << report_csv(report);
  EXPECT_TRUE(contains(report_csv(report), "table4,,BERT,FNet paper,MNLI,82.5,,,0\n"));
  const auto markdown = report_markdown(report);
  EXPECT_TRUE(contains(markdown, "| Quasi (Hydra) | 79k (70M) | 0.520 ± 0.010 (1.66) |"))
      << markdown;
  EXPECT_TRUE(contains(markdown, "- **yes**: Hydra beats Mamba (paper: loss 1.66 against 3.45)"));
  const auto json = report_json(report);
  EXPECT_EQ(json["tables"][0]["rows"][4]["ours"]["loss"]["seeds"], 3);
  EXPECT_EQ(json["tables"][0]["rows"][4]["paper"]["loss"], 1.66);
  EXPECT_EQ(json["findings"][0]["answer"], "yes");
  EXPECT_EQ(json["tables"][0]["rows"][4]["versions"], Json({"9.8.7"}));
}

TEST_F(ReportTest, NeverSetsAMeanOfFewerTasksBesideThePapersEight) {
  const auto report = make_report(plan_, "");
  const auto& table = report.tables.front();
  bool found = false;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    for (const auto& row : table.rows) {
      if (table.columns[i].key == "glue") {
        EXPECT_EQ(row.cells[i].ours.count, 0);
      }
      if (table.columns[i].key != "glue_some") continue;
      EXPECT_EQ(table.columns[i].heading, "Mean of 2");
      EXPECT_FALSE(row.cells[i].published);
      found = found || row.cells[i].ours.count == 3;
    }
  EXPECT_TRUE(found);
}

TEST_F(ReportTest, ThePageIsOneFile) {
  const auto page = report_html(make_report(plan_, "9.8.7"));
  for (const std::string part :
       {"<span class=\"badge yes\">yes</span>", "<polyline", "stroke-dasharray",
        "<title>Quasi (Hydra): 0.52 at 750, from 0.51 to 0.53</title>", "FNet paper",
        "hydramix pretrain recipes/tiny.yaml", "prefers-color-scheme: dark", "@media print",
        "width=device-width", "1234", "9.8.7"})
    EXPECT_TRUE(contains(page, part)) << part;
  for (const std::string part : {"src=\"http", "href=\"http", "url(", "@import"})
    EXPECT_FALSE(contains(page, part)) << "the page loads something: " << part;
}

// Table 5: accuracies, curves, and the matrices of a model of images.
TEST_F(ReportTest, HasTheMatricesOfImageModels) {
  plan_.tables = {&paper_table("table5")};
  const auto folder = row_folder(plan_, "table5/hydra-vit-b", 1);
  const ImageModel model(test::tiny_image_model("hydra"));
  save_image_model(folder / "images" / "model", model, {.classes = {"a", "b", "c"}});
  write_file(folder / "images.json", Json{{"version", "9.8.7"},
                                          {"parameters", 79000},
                                          {"steps", 375},
                                          {"top1", 34.9},
                                          {"tokens_per_second", 6400},
                                          {"images_per_second", 100},
                                          {"curve", {{188, 2.0}, {375, 1.5}}}}
                                         .dump());
  auto page = report_html(make_report(plan_, "9.8.7"));
  for (const std::string part : {"alt=\"Matrix of Hydra-ViT-B, layer 1, head ", "alt=\"The image\"",
                                 "images/s", "<td>1</td><td>100</td>", "<span class=\"none\">"})
    EXPECT_TRUE(contains(page, part)) << part;
  // The report of finished runs does not fail for a model that was lost later.
  std::filesystem::resize_file(folder / "images/model/model.safetensors", 20);
  page = report_html(make_report(plan_, "9.8.7"));
  EXPECT_FALSE(contains(page, "alt=\"Matrix"));
  EXPECT_TRUE(contains(page, "model.safetensors"));
}

// Debian's chromium, if it is installed, must have nothing to say about the page.
TEST_F(ReportTest, ThePageLoadsInABrowser) {
  if (std::system("command -v chromium >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "chromium is not installed";
  plan_.tables.clear();
  for (const auto& table : paper_tables()) plan_.tables.push_back(&table);
  write_file(folder_ / "report.html", report_html(make_report(plan_, "9.8.7")));
  // On a telephone the page itself does not scroll sideways; its wide tables do.
  write_file(folder_ / "narrow.html",
             "<iframe id=page src=report.html style='width: 390px; height: 800px'></iframe>"
             "<script>onload = () => { const page = document.getElementById('page'); "
             "document.title = page.contentDocument.documentElement.scrollWidth > 390 "
             "? 'too wide' : 'fits'; }</script>");
  const auto browse = [&](const std::string& page) {
    return test::run_program(
        "timeout 60 chromium",
        "--headless --no-sandbox --disable-gpu --allow-file-access-from-files "
        "--virtual-time-budget=3000 --enable-logging=stderr --v=0 --user-data-dir=" +
            (folder_ / "profile").string() + " --dump-dom file://" + (folder_ / page).string(),
        "HOME=" + folder_.path().string());
  };
  const auto r = browse("report.html");
  if (r.code != 0) GTEST_SKIP() << "chromium does not start here: " << r.err;
  EXPECT_TRUE(contains(r.out, "id=\"values\"")) << "the page is not whole";
  EXPECT_FALSE(contains(r.err, "CONSOLE")) << r.err;
  EXPECT_TRUE(contains(browse("narrow.html").out, "<title>fits</title>"));
}

class PlanTest : public ::testing::Test {
 protected:
  ReproduceOptions options(const std::string& scale) {
    ReproduceOptions options;
    options.scale = scale;
    options.out = (folder_ / "out").string();
    return options;
  }
  test::TemporaryFolder folder_;
};

TEST_F(PlanTest, RefusesContradictionsBeforeAnythingIsTrained) {
  auto tiny = options("tiny");
  tiny.data = {"somewhere"};
  EXPECT_THROW_WITH(plan_reproduction(tiny), UsageError, "built-in data");
  EXPECT_THROW_WITH(plan_reproduction(options("huge")), UsageError, "tiny, small, paper");
  EXPECT_THROW_WITH(plan_reproduction(options("small")), UsageError, "needs data");
  auto text = options("small");
  text.tables = {"table3"};
  EXPECT_THROW_WITH(plan_reproduction(text), UsageError, "table3 at scale small needs text");
  text.tables = {"table5"};
  EXPECT_THROW_WITH(plan_reproduction(text), UsageError, "table5 at scale small needs images");
  auto twice = options("tiny");
  twice.tables = {"table3", "3"};
  EXPECT_THROW_WITH(plan_reproduction(twice), UsageError, "named twice");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out")) << "something was written";
}

TEST_F(PlanTest, NamesTheFolderWithoutData) {
  auto small = options("small");
  small.data = {(folder_ / "nowhere").string()};
  EXPECT_THROW_WITH(plan_reproduction(small), UsageError, "nowhere' is no folder");
  std::filesystem::create_directories(folder_ / "empty");
  small.data = {(folder_ / "empty").string()};
  EXPECT_THROW_WITH(plan_reproduction(small), UsageError, "no data of a known kind");
}

TEST_F(PlanTest, RefusesAFolderOfAnotherScale) {
  std::filesystem::create_directories(folder_ / "out");
  write_file(folder_ / "out" / "reproduce.json", R"({"scale": "paper"})");
  EXPECT_THROW_WITH(plan_reproduction(options("tiny")), UsageError, "holds runs of scale 'paper'");
}

TEST_F(PlanTest, ARowInTwoTablesIsTrainedOnce) {
  ReproducePlan plan;
  plan.tables = {&paper_table("table3"), &paper_table("mixers")};
  plan.out = folder_.path();
  std::set<std::string> names;
  for (const auto& stage : make_stages(plan, {})) {
    EXPECT_TRUE(names.insert(stage.name).second) << stage.name << " stands twice";
    EXPECT_FALSE(stage.recipe.empty());
  }
  EXPECT_TRUE(names.contains("table3/hydra seed 3: pretrain"));
  EXPECT_FALSE(names.contains("mixers/hydra seed 1: pretrain"));
  EXPECT_TRUE(names.contains("mixers/butterfly seed 1: pretrain"));
}

}  // namespace
}  // namespace hydramix
