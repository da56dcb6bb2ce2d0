// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

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

}  // namespace
}  // namespace hydramix
