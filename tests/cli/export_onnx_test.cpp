// SPDX-License-Identifier: Apache-2.0
// hydramix export-onnx: the folders that it takes, and what it refuses. tests/onnx has the graphs.
#include "base/read_file.h"
#include "support/tiny_run.h"

namespace hydramix {
namespace {

using test::contains;
using test::run_here;

class ExportOnnxCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::TemporaryFolder>();
    test::make_language_run(*folder_ / "run");
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static std::string at(const std::string& name) { return (*folder_ / name).string(); }

  static inline std::unique_ptr<test::TemporaryFolder> folder_;
};

TEST_F(ExportOnnxCommand, TakesRunsAndModels) {
  const auto run = run_here("export-onnx " + at("run") + " " + at("a.onnx"));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "wrote " + at("a.onnx") + ": logits, ")) << run.out;
  const auto model = run_here("export-onnx " + at("run") + "/model " + at("b.onnx"));
  ASSERT_EQ(model.code, 0) << model.err;
  EXPECT_TRUE(read_file(at("a.onnx")) == read_file(at("b.onnx")));
  const auto best = run_here("export-onnx " + at("run") + " " + at("b.onnx") +
                             " --which best --head embedding --pooling cls --normalize");
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_TRUE(contains(best.out, "sentence_embedding")) << best.out;
  EXPECT_FALSE(read_file(at("a.onnx")) == read_file(at("b.onnx")));
}

TEST_F(ExportOnnxCommand, RefusesWrongPaths) {
  const auto refused = [&](const std::string& words, int code, const std::string& text) {
    const auto r = run_here("export-onnx " + words);
    EXPECT_EQ(r.code, code) << words;
    EXPECT_TRUE(contains(r.err, text)) << r.err;
  };
  refused("", 2, "model");
  refused(at("run"), 2, "OUT: nothing given");
  refused(at("run") + " " + at("x.pb"), 2, "expected a name that ends in .onnx");
  refused(at("none") + " " + at("x.onnx"), 1, at("none") + ": is no folder");
  refused(at("run") + " " + at("none") + "/x.onnx", 1, at("none"));
  refused(at("run") + " " + at("x.onnx") + " --head vectors", 2, "vectors");
  refused(at("run") + " " + at("x.onnx") + " --normalize", 2, "give --head embedding");
  EXPECT_FALSE(std::filesystem::exists(at("x.onnx")));
}

TEST_F(ExportOnnxCommand, RefusesAMixerWithoutAGraphAndNamesThoseThatHaveOne) {
  test::make_language_run(*folder_ / "s6", "--model.block.mixer s6");
  const auto r = run_here("export-onnx " + at("s6") + " " + at("x.onnx"));
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(contains(r.err, at("s6") + ": its mixer is s6")) << r.err;
  EXPECT_TRUE(contains(r.err, "hydra, semiseparable, add and attention")) << r.err;
  EXPECT_FALSE(std::filesystem::exists(at("x.onnx")));
}

// A failed write leaves the file that is there.
TEST_F(ExportOnnxCommand, KeepsTheOldFileWhenItFails) {
  write_file(at("old.onnx"), "old");
  const auto r = run_here("export-onnx " + at("none") + " " + at("old.onnx"));
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(read_file(at("old.onnx")), "old");
}

}  // namespace
}  // namespace hydramix
