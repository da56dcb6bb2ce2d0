// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "train/metrics.h"

namespace hydramix {
namespace {

TEST(RunFolderTest, NothingInsideTheFolderHoldsItsLock) {
  const test::TemporaryFolder folder;
  const RunFolder first(folder / "run");
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    std::filesystem::remove(entry.path());
  EXPECT_THROW_WITH(RunFolder(folder / "run"), Error, "another run is writing into this folder");
}

TEST(MetricsTest, DamagedLinesAreAnnouncedAndAnIncompleteLastLineIsNot) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string sound = "{\"step\":1,\"loss\":2.5}\n";
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& warning) { warnings.push_back(warning); };
  write_file(path, sound + "{\"step\":2,\"lo");
  { const Metrics metrics(path, 5, warn); }
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(read_file(path), sound);
  write_file(path, sound + "{\"st\x80p\":2}\n" + std::string(100'000, '[') + "\n");
  { const Metrics metrics(path, 5, warn); }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("2 of 3 lines damaged, the first is line 2"), std::string::npos)
      << warnings[0];
  EXPECT_EQ(read_file(path), sound);
}

TEST(MetricsTest, TheLastStepIsThatOfTheLastWholeLine) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  EXPECT_EQ(last_step(path), 0) << "no file";
  for (const auto& [text, step] : std::vector<std::pair<std::string, int64_t>>{
           {"", 0},
           {"{\"step\":7", 0},
           {"{\"step\":7}\n", 7},
           {"{\"step\":7}\n{\"step\":12,\"loss\":1}\n{\"step\":2", 12},
           {"{\"step\":7}\ndamaged\n\n", 7},
           {"\n\n", 0}}) {
    write_file(path, text);
    EXPECT_EQ(last_step(path), step) << text;
  }
}

TEST(RunFolderTest, RunsOfEarlierVersionsGetTheirImpliedOptions) {
  const test::TemporaryFolder folder;
  write_file(folder / "config.json", R"({"train": {"rate": 1, "schedule": {"warmup": 0.1}}})");
  const RunRules rules{{}, nlohmann::ordered_json::parse(R"({"train": {"clip": 1,
      "schedule": {"shape": "linear"}}})")};
  auto now = nlohmann::ordered_json::parse(R"({"train": {"rate": 1, "clip": 1,
      "schedule": {"warmup": 0.1, "shape": "linear"}}})");
  check_same_run(folder.path(), now, rules, {});
  now["train"]["schedule"]["shape"] = "cosine";
  EXPECT_THROW_WITH(check_same_run(folder.path(), now, rules, {}), UsageError,
                    "train.schedule.shape was \"linear\", is \"cosine\"");
  now["train"]["schedule"]["shape"] = "linear";
  now["train"]["clip"] = "inf";
  EXPECT_THROW_WITH(check_same_run(folder.path(), now, rules, {}), UsageError,
                    "train.clip was 1, is \"inf\"");
}

TEST(RunFolderTest, DamageToOptionsAndFingerprintsIsNoticed) {
  const test::TemporaryFolder folder;
  const auto config = nlohmann::ordered_json::parse(R"({"train": {"keep": 1, "rate": 0.5}})");
  RunFolder(folder.path()).keep(config, {{"train.keep"}}, {{"train", "abc"}});
  EXPECT_EQ(config_of_run(folder.path()), config);
  EXPECT_EQ(data_of_run(folder.path())["train"], "abc");
  // Written by another program, it means the same.
  write_file(folder / "config.json", R"({ "train":{"rate":0.5,"keep":1} })");
  config_of_run(folder.path());
  write_file(folder / "config.json", R"({"train": {"keep": 1, "rate": 0.25}})");
  EXPECT_THROW_WITH(config_of_run(folder.path()), Error, "config.json: was changed or damaged");
  write_file(folder / "config.json", config.dump());
  const auto data = read_file(folder / "data.json");
  write_file(folder / "data.json", R"({"train": "abd")" + data.substr(data.find(',')));
  EXPECT_THROW_WITH(data_of_run(folder.path()), Error, "data.json: the checksum of its values is");
  // That of an earlier version has no checksum.
  write_file(folder / "data.json", R"({"train": "abc"})");
  EXPECT_EQ(config_of_run(folder.path()), config);
}

}  // namespace
}  // namespace hydramix
