// SPDX-License-Identifier: Apache-2.0
// Who is blamed, for every way in which the ranks' signs of life can differ.
#include "train/verdict.h"

#include "support/expect.h"

namespace hydramix {
namespace {

using Kind = Complaint::Kind;
using Signs = std::vector<SignOfLife>;

const std::vector<std::string> kNames = {"rank 0 (a:pid 1)", "rank 1 (b:pid 2)",
                                         "rank 2 (c:pid 3)"};

// Rank 0 complains, at operation 7.
Verdict judged(Kind kind, const SignOfLife& before_1, const SignOfLife& after_1,
               const std::string& detail = "") {
  return judge({kind, std::chrono::milliseconds(2500), detail},
               {{10, 7, "sum"}, before_1, {20, 7, "sum"}},
               {{14, 7, "sum"}, after_1, {24, 7, "sum"}}, kNames, 0);
}

TEST(Verdict, ASignOfLifeSurvivesTheStore) {
  const SignOfLife sign{12, 34, "barrier \"step 5\" after \"two words\"\nand a line"};
  const auto back = SignOfLife::of(sign.text());
  EXPECT_EQ(back.beat, 12);
  EXPECT_EQ(back.operation, 34);
  EXPECT_EQ(back.what, sign.what);
  EXPECT_TRUE(SignOfLife::of(SignOfLife::of_leaver().text()).left());
  EXPECT_FALSE(SignOfLife::of(SignOfLife().text()).left());
}

TEST(Verdict, ASilentRankBehindALostConnectionIsDead) {
  const auto verdict = judged(Kind::kLost, {5, 6, "sum"}, {5, 6, "sum"});
  EXPECT_EQ(verdict.text,
            "rank 1 (b:pid 2) died: connection closed while rank 0 waited at operation 7 (sum)");
  EXPECT_EQ(verdict.listeners, 2);
}

TEST(Verdict, ARankThatIsBehindIsLate) {
  const auto alive = judged(Kind::kLate, {5, 6, "broadcast"}, {9, 6, "broadcast"});
  EXPECT_EQ(alive.text,
            "rank 1 (b:pid 2) has not reached operation 7 (sum) for 2.5 s; it was last seen at "
            "operation 6 (broadcast)");
  EXPECT_EQ(alive.listeners, 3);
  const auto stopped = judged(Kind::kLate, {5, 0, ""}, {5, 0, ""});
  EXPECT_EQ(stopped.text,
            "rank 1 (b:pid 2) has not reached operation 7 (sum) for 2.5 s; it was last seen at "
            "the start and gives no sign of life (stopped, dead or unreachable)");
  EXPECT_EQ(stopped.listeners, 2);
}

TEST(Verdict, ASilentRankIsBlamedEvenInTheSameOperation) {
  EXPECT_EQ(judged(Kind::kLate, {5, 7, "sum"}, {5, 7, "sum"}).text,
            "rank 1 (b:pid 2) gives no sign of life (stopped, dead or unreachable) while rank 0 "
            "waited at operation 7 (sum) for 2.5 s");
}

TEST(Verdict, ARankInAnotherOperationIsShown) {
  EXPECT_EQ(judged(Kind::kLate, {5, 7, "broadcast"}, {9, 7, "broadcast"}).text,
            "rank 1 (b:pid 2) is at another operation: operation 7 (broadcast) while rank 0 waited "
            "at operation 7 (sum)");
}

TEST(Verdict, ARankThatLeftIsNoListener) {
  const auto verdict = judged(Kind::kLost, {5, 6, "sum"}, SignOfLife::of_leaver());
  EXPECT_EQ(verdict.text,
            "rank 1 (b:pid 2) has left the run while rank 0 waited at operation 7 (sum)");
  EXPECT_EQ(verdict.listeners, 2);
}

TEST(Verdict, WithNobodyToBlameTheBackendSpeaks) {
  EXPECT_EQ(judged(Kind::kLost, {5, 7, "sum"}, {9, 7, "sum"}, "broken pipe").text,
            "rank 0 (a:pid 1) lost its connections at operation 7 (sum), though all ranks are "
            "alive (broken pipe)");
  EXPECT_EQ(judged(Kind::kLate, {5, 8, "sum"}, {9, 8, "sum"}).text,
            "rank 0 (a:pid 1) got no answer at operation 7 (sum) for 2.5 s, though all ranks are "
            "alive");
}

}  // namespace
}  // namespace hydramix
