// SPDX-License-Identifier: Apache-2.0
// The rank that a report names, for every way in which the heartbeats can differ.
#include "dist/failure_report.h"

#include "support/expect.h"

namespace hydramix {
namespace {

using Kind = FailedOperation::Kind;

const std::vector<std::string> kNames = {"rank 0 (a:pid 1)", "rank 1 (b:pid 2)",
                                         "rank 2 (c:pid 3)"};

// Rank 0's operation 7 has failed.
FailureReport report(Kind kind, const Heartbeat& before_1, const Heartbeat& after_1,
                     const std::string& detail = "") {
  return diagnose({kind, std::chrono::milliseconds(2500), detail},
                  {{10, 7, "sum"}, before_1, {20, 7, "sum"}},
                  {{14, 7, "sum"}, after_1, {24, 7, "sum"}}, kNames, 0);
}

TEST(Heartbeat, SurvivesTheStore) {
  const Heartbeat heartbeat{12, 34, "barrier \"step 5\" after \"two words\"\nand a line"};
  const auto back = Heartbeat::parse(heartbeat.text());
  EXPECT_EQ(back.count, 12);
  EXPECT_EQ(back.operation, 34);
  EXPECT_EQ(back.what, heartbeat.what);
  EXPECT_TRUE(Heartbeat::parse(Heartbeat::of_departed().text()).left());
  EXPECT_FALSE(Heartbeat::parse(Heartbeat().text()).left());
}

TEST(FailureReport, ASilentRankIsDeadWhenAConnectionIsLost) {
  const auto found = report(Kind::kConnectionLost, {5, 6, "sum"}, {5, 6, "sum"});
  EXPECT_EQ(found.text,
            "rank 1 (b:pid 2) died: connection closed while rank 0 waited at operation 7 (sum)");
  EXPECT_EQ(found.live_ranks, 2);
}

TEST(FailureReport, ARankAtAnEarlierOperationIsLate) {
  const auto alive = report(Kind::kTimeout, {5, 6, "broadcast"}, {9, 6, "broadcast"});
  EXPECT_EQ(alive.text,
            "rank 1 (b:pid 2) has not reached operation 7 (sum) for 2.5 s; it was last seen at "
            "operation 6 (broadcast)");
  EXPECT_EQ(alive.live_ranks, 3);
  const auto stopped = report(Kind::kTimeout, {5, 0, ""}, {5, 0, ""});
  EXPECT_EQ(stopped.text,
            "rank 1 (b:pid 2) has not reached operation 7 (sum) for 2.5 s; it was last seen at "
            "the start and gives no sign of life (stopped, dead or unreachable)");
  EXPECT_EQ(stopped.live_ranks, 2);
}

TEST(FailureReport, ASilentRankIsBlamedEvenInTheSameOperation) {
  EXPECT_EQ(report(Kind::kTimeout, {5, 7, "sum"}, {5, 7, "sum"}).text,
            "rank 1 (b:pid 2) gives no sign of life (stopped, dead or unreachable) while rank 0 "
            "waited at operation 7 (sum) for 2.5 s");
}

TEST(FailureReport, ARankInAnotherOperationIsShown) {
  EXPECT_EQ(report(Kind::kTimeout, {5, 7, "broadcast"}, {9, 7, "broadcast"}).text,
            "rank 1 (b:pid 2) is at another operation: operation 7 (broadcast) while rank 0 waited "
            "at operation 7 (sum)");
}

TEST(FailureReport, ARankThatLeftIsNotLive) {
  const auto found = report(Kind::kConnectionLost, {5, 6, "sum"}, Heartbeat::of_departed());
  EXPECT_EQ(found.text,
            "rank 1 (b:pid 2) has left the run while rank 0 waited at operation 7 (sum)");
  EXPECT_EQ(found.live_ranks, 2);
}

TEST(FailureReport, GivesTheBackendsMessageWhenNoRankIsAtFault) {
  EXPECT_EQ(report(Kind::kConnectionLost, {5, 7, "sum"}, {9, 7, "sum"}, "broken pipe").text,
            "rank 0 (a:pid 1) lost its connections at operation 7 (sum), though all ranks are "
            "alive (broken pipe)");
  EXPECT_EQ(report(Kind::kTimeout, {5, 8, "sum"}, {9, 8, "sum"}).text,
            "rank 0 (a:pid 1) got no answer at operation 7 (sum) for 2.5 s, though all ranks are "
            "alive");
}

}  // namespace
}  // namespace hydramix
