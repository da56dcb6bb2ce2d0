// SPDX-License-Identifier: Apache-2.0
// hydramix export-hf and import-hf: files, answers, and what they refuse.
#include "base/json_reader.h"
#include "support/tiny_run.h"

namespace hydramix {
namespace {

using test::contains;
using test::run_here;

class Hub : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string read(const std::string& name) const { return read_file(folder_ / name); }
  std::string embedding(const std::string& model) const {
    return run_here("embed --text 'the dog barks' --model " + path(model)).out;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Hub, ExportsARunAndItsModel) {
  test::make_language_run(path("run"));
  const auto r = run_here("export-hf " + path("run") + " " + path("out"));
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "modeling_hydramix.py", "configuration_hydramix.py", "modules.json",
        "1_Pooling/config.json", "README.md"})
    EXPECT_TRUE(std::filesystem::is_regular_file(folder_ / "out" / name)) << name;
  EXPECT_TRUE(contains(read("out/modeling_hydramix.py"), "class HydraMixForMaskedLM"));
  const auto card = read("out/README.md");
  EXPECT_TRUE(contains(card, "# out\n")) << card;
  EXPECT_TRUE(contains(card, "| data | language |")) << card;
  EXPECT_TRUE(contains(card, "| steps | 4 |")) << card;
  EXPECT_TRUE(contains(card, "| perplexity | ")) << card;
  EXPECT_EQ(embedding("out"), embedding("run"));
  EXPECT_EQ(run_here("verify " + path("out")).code, 0);
  // The model of a run has its run beside it.
  ASSERT_EQ(run_here("export-hf " + path("run/model") + " " + path("same")).code, 0);
  EXPECT_TRUE(contains(read("same/README.md"), "| data | language |"));
}

TEST_F(Hub, ExportsAClassifier) {
  test::make_language_run(path("run"));
  std::string rows = "text\tlabel\n";
  for (int i = 0; i < 20; ++i) rows += i % 2 == 0 ? "the dog\tone\n" : "a cat sees\ttwo\n";
  write_file(folder_ / "train.tsv", rows);
  auto r = run_here("finetune " + path("run") + " --device cpu --recipe tiny --epochs 1 --data " +
                    path("train.tsv") + " --out " + path("tuned"));
  ASSERT_EQ(r.code, 0) << r.err;
  r = run_here("export-hf " + path("tuned") + " " + path("out"));
  ASSERT_EQ(r.code, 0) << r.err;
  const auto config = read_json(folder_ / "out" / "config.json", kConfigFile);
  EXPECT_EQ(config["id2label"], (nlohmann::ordered_json{{"0", "one"}, {"1", "two"}}));
  EXPECT_TRUE(contains(read("out/README.md"), "| data | " + path("train.tsv") + " |"));
  EXPECT_TRUE(contains(read("out/README.md"), "| accuracy | "));
  const auto predicted = [&](const std::string& model) {
    return run_here("predict " + path(model) + " " + path("train.tsv") + " --to jsonl").out;
  };
  EXPECT_EQ(predicted("out"), predicted("tuned"));
}

TEST_F(Hub, RefusesWhatItCannotExport) {
  test::make_language_run(path("fnet"), "--model.block.mixer fnet --model.block.style plain");
  auto r = run_here("export-hf " + path("fnet") + " " + path("out"));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "its mixer is 'fnet'")) << r.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  r = run_here("export-hf " + path("nothing") + " " + path("out"));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, path("nothing"))) << r.err;
  r = run_here("export-hf " + path("fnet") + " " + path("fnet"));
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(contains(r.err, "would be lost")) << r.err;
  std::filesystem::create_directories(folder_ / "full" / "of");
  r = run_here("export-hf " + path("fnet") + " " + path("full"));
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(contains(r.err, "--overwrite")) << r.err;
  EXPECT_EQ(run_here("export-hf " + path("fnet")).code, 2);
}

TEST_F(Hub, RefusesWhatIsNoBert) {
  std::filesystem::create_directories(folder_ / "theirs");
  write_file(folder_ / "theirs" / "config.json", R"({"model_type": "roberta"})");
  auto r = run_here("import-hf " + path("theirs") + " " + path("out"));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "model_type is \"roberta\"")) << r.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  write_file(folder_ / "theirs" / "config.json", "{");
  r = run_here("import-hf " + path("theirs") + " " + path("out"));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "is not JSON")) << r.err;
  EXPECT_EQ(run_here("import-hf " + path("theirs") + " " + path("theirs")).code, 2);
  EXPECT_EQ(run_here("import-hf " + path("nothing") + " " + path("out")).code, 1);
}

}  // namespace
}  // namespace hydramix
