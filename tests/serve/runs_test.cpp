// SPDX-License-Identifier: Apache-2.0
// The lines of a run's metrics.jsonl, asked for again and again while it grows.
#include "serve/runs.h"

#include <nlohmann/json.hpp>

#include <fstream>

#include "serve/http_error.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using nlohmann::json;

class RunMetrics : public ::testing::Test {
 protected:
  RunMetrics() { std::filesystem::create_directories(folder / "run"); }
  void write(const std::string& text, std::ios::openmode mode = std::ios::app) {
    std::ofstream(folder / "run" / "metrics.jsonl", mode) << text;
  }
  json ask(int64_t after) {
    return json::parse(run_metrics(folder.path(), "run", std::to_string(after)));
  }
  test::TemporaryFolder folder;
};

TEST_F(RunMetrics, HaveTheCompleteLinesFromAByteOn) {
  write("{\"step\":1}\n{\"step\":2}\n{\"st");
  const auto first = ask(0);
  EXPECT_EQ(first["lines"], json::parse(R"([{"step": 1}, {"step": 2}])"));
  EXPECT_EQ(first["next"], 22);
  EXPECT_EQ(ask(22)["lines"], json::array());
  write("ep\":3}\n");
  const auto rest = ask(22);
  EXPECT_EQ(rest["lines"], json::parse(R"([{"step": 3}])"));
  EXPECT_EQ(rest["next"], 33);
}

TEST_F(RunMetrics, StartAgainWhereTheFileWasRewritten) {
  write("{\"step\":1}\n");
  EXPECT_EQ(ask(100)["lines"].size(), 1U);
  EXPECT_EQ(ask(100)["next"], 11);
  EXPECT_THROW_WITH(run_metrics(folder.path(), "run", "-1"), HttpError, "a number of bytes");
  EXPECT_THROW_WITH(run_metrics(folder.path(), "run", "1x"), HttpError, "a number of bytes");
}

// More than an answer holds, with a line in it that is longer than that.
TEST_F(RunMetrics, ComeInAnswersOfABoundedSize) {
  const std::string line = concat("{\"text\":\"", std::string(1000, 'x'), "\"}\n");
  std::string text;
  for (int i = 0; i < 6000; ++i) text += line;
  text += concat("{\"text\":\"", std::string(9 << 20, 'y'), "\"}\n", line);
  write(text);
  int64_t after = 0;
  std::size_t lines = 0;
  int answers = 0;
  for (; after < std::ssize(text); ++answers) {
    ASSERT_LT(answers, 10);
    const auto answer = run_metrics(folder.path(), "run", std::to_string(after));
    EXPECT_LE(answer.size(), (std::size_t{4} << 20) + 100);
    const auto parsed = json::parse(answer);
    lines += parsed["lines"].size();
    ASSERT_GT(parsed["next"].get<int64_t>(), after);
    after = parsed["next"];
  }
  EXPECT_EQ(lines, 6001U);
}

}  // namespace
}  // namespace hydramix::serve
