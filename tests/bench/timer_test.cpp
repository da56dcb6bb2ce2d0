// SPDX-License-Identifier: Apache-2.0
// The timer, with a clock that only the timed functions move.
#include "bench/timer.h"

#include <gtest/gtest.h>

#include <string>

namespace hydramix::bench {
namespace {

struct Stage {
  double now = 100;
  std::string order;

  // Takes seconds[k] in its k-th call, and the last of them from then on.
  Alternative lasting(char name, std::vector<double> seconds) {
    return [this, name, seconds, call = std::size_t{0}]() mutable {
      order += name;
      now += seconds[std::min(call++, seconds.size() - 1)];
    };
  }
  Clock clock() {
    return [this] { return now; };
  }
};

TEST(Timer, TakesAlternativesInTurnAfterAnUntimedRound) {
  Stage stage;
  const auto times =
      time_interleaved({stage.lasting('a', {50, 1}), stage.lasting('b', {70, 2})},
                       {.rounds = 3, .min_seconds = 0, .max_seconds = 1e9}, stage.clock());
  EXPECT_EQ(stage.order, "abababab");
  EXPECT_DOUBLE_EQ(times[0].seconds, 1);  // without the 50 and 70 of the first calls
  EXPECT_DOUBLE_EQ(times[1].seconds, 2);
  EXPECT_EQ(times[0].rounds, 3);
}

TEST(Timer, ReportsMedianAndBest) {
  Stage stage;
  const auto times =
      time_interleaved({stage.lasting('a', {0, 5, 1, 100, 3, 2})},
                       {.rounds = 5, .min_seconds = 0, .max_seconds = 1e9}, stage.clock());
  EXPECT_DOUBLE_EQ(times[0].seconds, 3);
  EXPECT_DOUBLE_EQ(times[0].best, 1);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(Timer, GoesOnUntilEnoughTimeIsMeasured) {
  Stage stage;
  const auto times =
      time_interleaved({stage.lasting('a', {0.25}), stage.lasting('b', {0.25})},
                       {.rounds = 2, .min_seconds = 4, .max_seconds = 1e9}, stage.clock());
  EXPECT_EQ(times[0].rounds, 8);
}

TEST(Timer, StopsAtTheLimitButMeasuresOnce) {
  Stage stage;
  const TimerOptions options{.rounds = 100, .min_seconds = 0, .max_seconds = 3.5};
  EXPECT_EQ(time_interleaved({stage.lasting('a', {1})}, options, stage.clock())[0].rounds, 4);
  EXPECT_EQ(time_interleaved({stage.lasting('a', {50})}, options, stage.clock())[0].rounds, 1);
}

TEST(Timer, ItsOwnClockRunsForward) {
  const double before = steady_seconds();
  EXPECT_GE(steady_seconds(), before);
}

}  // namespace
}  // namespace hydramix::bench
