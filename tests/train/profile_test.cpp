// SPDX-License-Identifier: Apache-2.0
#include "train/profile.h"

#include <map>
#include <set>

#include "base/json_reader.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "train/tiny_model.h"

namespace hydramix {
namespace {

struct Traced {
  std::string name;
  double begin, end;
  int64_t step;
};

// The spans of the host's track, in the order in which they ended.
std::vector<Traced> spans_of(const std::filesystem::path& path) {
  std::vector<Traced> spans;
  const auto trace = read_json(path, kResultFile);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_EQ(event.at("tid"), 0) << "there is no GPU";
    const double begin = event.at("ts"), duration = event.at("dur");
    const int64_t step = event.contains("args") ? event["args"]["step"].get<int64_t>() : -1;
    spans.push_back({event.at("name"), begin, begin + duration, step});
  }
  return spans;
}

TEST(Profile, WritesNestedSpansAndTheirSteps) {
  const test::TemporaryFolder folder;
  const auto path = folder / "trace.json";
  {
    Profile profile(path, torch::kCPU);
    EXPECT_TRUE(spans_of(path).empty()) << "the file is there at once";
    {
      const Profile::Span outer(&profile, "outer", 7);
      const Profile::Span inner(&profile, "inner");
    }
    Profile::mark(&profile, "work");  // of a GPU
    profile.read_device();
    profile.write();
  }
  const auto spans = spans_of(path);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].name, "inner");
  EXPECT_EQ(spans[0].step, -1);
  EXPECT_EQ(spans[1].name, "outer");
  EXPECT_EQ(spans[1].step, 7);
  EXPECT_LE(spans[1].begin, spans[0].begin);
  EXPECT_GE(spans[1].end, spans[0].end);
}

TEST(Profile, IsOptional) {
  const Profile::Span span(nullptr, "nothing");
  Profile::mark(nullptr, "nothing");
}

TEST(Profile, RefusesAFileThatCannotBeWrittenBeforeTraining) {
  EXPECT_THROW_WITH(Profile("/no/such/folder/trace.json", torch::kCPU), Error, "/no/such/folder");
}

TEST(Profile, ShowsThePartsOfEveryStepOfARun) {
  const test::TemporaryFolder folder;
  PretrainOptions o = tiny_pretraining();
  o.out = (folder / "run").string();
  o.train.profile = (folder / "trace.json").string();
  o.device = "cpu";
  o.data.evaluation_documents = 4;
  o.train.steps = 3;
  o.train.batch = 8;
  o.train.micro_batch = 4;
  ASSERT_EQ(pretrain(o).end, Trainer::End::kDone);
  std::map<std::string, int> counts;
  std::set<int64_t> steps;
  for (const auto& span : spans_of(o.train.profile)) {
    ++counts[span.name];
    if (span.name == "update") steps.insert(span.step);
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"batch", 6},
                                                {"upload", 6},
                                                {"forward, backward", 6},
                                                {"micro-batch", 6},
                                                {"update", 3},
                                                {"wait for the numbers", 3},
                                                {"evaluation", 1},
                                                {"checkpoint", 1}}));
  EXPECT_EQ(steps, (std::set<int64_t>{0, 1, 2}));

  // A run may be continued with another profile, or none.
  o.train.profile.clear();
  EXPECT_EQ(pretrain(o).end, Trainer::End::kDone);
}

}  // namespace
}  // namespace hydramix
