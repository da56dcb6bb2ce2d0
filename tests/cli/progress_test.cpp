// SPDX-License-Identifier: Apache-2.0
// Progress lines: what they show, and that they fit a terminal.
#include "cli/progress.h"

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <sstream>
#include <thread>

#include "support/command.h"

namespace hydramix {
namespace {

using test::contains;

ProgressState training() {
  return {
      "pretrain", "steps", 1,   0,
      300,        70000,   600, {"loss 3.214", "12 skipped", "123456 tokens/s", "45 % of GEMM"}};
}

TEST(ProgressLine, FitsAnyWidthAndLeavesOutTheLeastImportant) {
  const auto wide = progress_bar_line(training(), 200);
  EXPECT_EQ(wide,
            "pretrain [........................] 300/70000 steps  0.5 steps/s  38 h 43 min left  "
            "loss 3.214  12 skipped  123456 tokens/s  45 % of GEMM");
  for (std::size_t columns = 1; columns <= 200; ++columns)
    EXPECT_LE(terminal_columns(progress_bar_line(training(), columns)), columns);
  const auto usual = progress_bar_line(training(), 79);
  for (const char* field : {"pretrain", "300/70000 steps", "38 h 43 min left", "loss 3.214", "["})
    EXPECT_TRUE(contains(usual, field)) << usual;
  EXPECT_FALSE(contains(usual, "GEMM")) << usual;
  const auto narrow = progress_bar_line(training(), 50);
  for (const char* field : {"300/70000 steps", "38 h 43 min left"})
    EXPECT_TRUE(contains(narrow, field)) << narrow;
  EXPECT_FALSE(contains(narrow, "tokens/s")) << narrow;
}

TEST(ProgressLine, CountsColumnsNotBytes) {
  EXPECT_EQ(terminal_columns("na\xC3\xAFve"), 5u);
  EXPECT_EQ(terminal_columns("e\xCC\x81"), 1u);                 // a combining accent
  EXPECT_EQ(terminal_columns("\xE6\x97\xA5\xE6\x9C\xAC"), 4u);  // two wide characters
  EXPECT_EQ(clipped_to_columns("\xE6\x97\xA5\xE6\x9C\xAC", 3), "\xE6\x97\xA5");
  auto state = training();
  state.label = "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E.txt";
  for (std::size_t columns = 1; columns <= 100; ++columns)
    EXPECT_LE(terminal_columns(progress_bar_line(state, columns)), columns);
}

TEST(ProgressLine, HasUnits) {
  EXPECT_EQ(progress_plain_line({"verify", "kB", 1e3, 0, 1200, 4800, 2, {}}),
            "verify 1.2/4.8 kB  0.6 kB/s  6 s left");
  EXPECT_EQ(progress_plain_line({"pretrain", "steps", 1, 0, 1, 10, 700, {}}),
            "pretrain 1/10 steps  11 min a step  105 min left");
  EXPECT_EQ(progress_plain_line({"pretrain", "steps", 1, 5, 5, 10, 3, {"sequence 32 of 4096"}}),
            "pretrain 5/10 steps  sequence 32 of 4096");
  EXPECT_EQ(byte_unit(999).name, "B");
  EXPECT_EQ(byte_unit(1000).name, "kB");
  EXPECT_EQ(byte_unit(54'000'000).name, "MB");
  EXPECT_EQ(byte_unit(54'000'000'000).name, "GB");
}

struct Captured {
  std::string text;
  int64_t lines = 0;
  double seconds = 0;  // that the work took
};

Captured captured(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  ::testing::internal::CaptureStderr();
  work();
  Captured result{::testing::internal::GetCapturedStderr()};
  result.lines = std::count(result.text.begin(), result.text.end(), '\n');
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

// At most one line a second, and the last. A slow machine may take any time.
TEST(ProgressLine, IsCalmInAFile) {
  const auto fast = captured([] {
    Progress progress("work", 1'000'000, "steps");
    for (int64_t i = 0; i < 1'000'000; ++i) progress.advance();
  });
  EXPECT_LE(static_cast<double>(fast.lines), fast.seconds + 1) << fast.text;
  const auto slow = captured([] {
    Progress progress("work", 24, "steps");
    for (int64_t i = 0; i < 24; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      progress.advance();
    }
  });
  EXPECT_GE(slow.lines, 2) << slow.text;  // after a second, and the last
  EXPECT_LE(static_cast<double>(slow.lines), slow.seconds + 1) << slow.text;
  EXPECT_TRUE(contains(slow.text, "work 24/24 steps")) << slow.text;
}

// The output in a terminal of 80 columns.
std::string in_a_terminal(const std::vector<std::string>& words) {
  winsize size{24, 80, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    std::vector<char*> arguments;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(terminal, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << text;
  return text;
}

TEST(ProgressLine, ATrainingRunStaysOnOneLineOfATerminal) {
  const test::TemporaryFolder folder;
  const auto text = in_a_terminal({HYDRAMIX_COMMAND,
                                   "pretrain",
                                   "--device",
                                   "cpu",
                                   "--model.vocab",
                                   "300",
                                   "--model.layers",
                                   "1",
                                   "--model.block.d-model",
                                   "16",
                                   "--model.block.headdim",
                                   "8",
                                   "--model.block.mixer-options.d-state",
                                   "8",
                                   "--data.evaluation-documents",
                                   "4",
                                   "--train.steps",
                                   "200",
                                   "--train.batch",
                                   "8",
                                   "--out",
                                   (folder / "run").string()});
  EXPECT_TRUE(contains(text, "building hydra: 0.0 M parameters in 1 layer of d_model 16")) << text;
  EXPECT_TRUE(contains(text, "200/200 steps")) << text;
  std::istringstream drawn(text);
  int bars = 0;
  for (std::string line; std::getline(drawn, line, '\r');) {
    if (!contains(line, "pretrain [")) continue;
    ++bars;
    line.erase(0, line.find("pretrain"));
    EXPECT_LT(terminal_columns(line), 80u) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 0) << line;
  }
  EXPECT_GE(bars, 1) << text;
}

}  // namespace
}  // namespace hydramix
