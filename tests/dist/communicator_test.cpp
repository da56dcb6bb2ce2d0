// SPDX-License-Identifier: Apache-2.0
// Ranks as real processes: the program dist_rank (rank.cpp), started once per rank with a
// launcher's environment and the name of a part to play. Its output and exit code are what the
// tests check.
#include "dist/communicator.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include "base/read_file.h"
#include "dist/process_group.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "support/ports.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;

struct Outcome {
  int code = 0;  // exit code, or minus the signal
  pid_t pid = 0;
  std::string output;
  double seconds = 0;  // until it ended; 0 while it runs

  std::string name(int rank) const {
    return "rank " + std::to_string(rank) + " (" + host() + ":pid " + std::to_string(pid) + ")";
  }
  static std::string host() {
    char text[256] = {};
    gethostname(text, sizeof text - 1);
    return text;
  }
};

struct Cast {
  std::string part;
  int size = 3;
  double timeout = 60;
  int starting = 3;    // number of ranks that start
  int stopped = -1;    // a rank that does not end; it is killed after the others
  bool agent = false;  // another process hosts the store, as with torchrun
};

constexpr double kLimit = 55;     // seconds after which everything is killed
constexpr double kDetected = 40;  // long before the timeout of 60 s, even on a loaded machine

// Starts a program with these arguments, environment variables and output.
pid_t start(std::vector<std::string> arguments, const std::map<std::string, std::string>& variables,
            const std::string& output) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  const int out = open(output.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(out, 1);
  dup2(out, 2);
  std::vector<char*> argv;
  for (auto& one : arguments) argv.push_back(one.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

pid_t start_rank(const Cast& cast, int rank, const std::string& port, const std::string& output) {
  std::map<std::string, std::string> variables{{"RANK", std::to_string(rank)},
                                               {"WORLD_SIZE", std::to_string(cast.size)},
                                               {"LOCAL_RANK", std::to_string(rank)},
                                               {"MASTER_ADDR", "127.0.0.1"},
                                               {"MASTER_PORT", port}};
  if (cast.agent) variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  return start({HYDRAMIX_DIST_RANK, cast.part, std::to_string(cast.timeout)}, variables, output);
}

// Runs several parts at the same time, each with all its ranks.
std::vector<std::vector<Outcome>> run(const std::vector<Cast>& casts) {
  test::TemporaryFolder folder;
  const auto file = [&](std::size_t c, std::size_t r) {
    return (folder / (std::to_string(c) + "." + std::to_string(r))).string();
  };
  std::vector<std::vector<Outcome>> outcomes;
  std::vector<pid_t> agents;
  const auto begin = Clock::now();
  for (std::size_t c = 0; c < casts.size(); ++c) {
    const auto port = std::to_string(test::free_port());
    outcomes.emplace_back(casts[c].starting);
    if (casts[c].agent)
      agents.push_back(start({HYDRAMIX_DIST_RANK, "agent", port}, {}, "/dev/null"));
    for (int r = 0; r < casts[c].starting; ++r)
      outcomes[c][r].pid = start_rank(casts[c], r, port, file(c, r));
  }
  std::vector<int> running;
  for (const auto& cast : casts) running.push_back(cast.starting);
  while (std::any_of(running.begin(), running.end(), [](int n) { return n > 0; })) {
    const double time = std::chrono::duration<double>(Clock::now() - begin).count();
    for (std::size_t c = 0; c < casts.size(); ++c)
      for (int r = 0; r < casts[c].starting; ++r) {
        auto& one = outcomes[c][r];
        if (one.seconds > 0) continue;
        const bool hopeless = time > kLimit || (r == casts[c].stopped && running[c] == 1);
        if (hopeless) kill(one.pid, SIGKILL);
        int status = 0;
        if (waitpid(one.pid, &status, hopeless ? 0 : WNOHANG) != one.pid) continue;
        one.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        one.seconds = time;
        one.output = read_file(file(c, r));
        --running[c];
      }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const pid_t agent : agents) {
    kill(agent, SIGKILL);
    waitpid(agent, nullptr, 0);
  }
  return outcomes;
}

std::vector<Outcome> run(const Cast& cast) { return run(std::vector<Cast>{cast})[0]; }

void expect_done(const std::vector<Outcome>& outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    EXPECT_TRUE(outcomes[r].code == 0 && outcomes[r].output == "done\n")
        << "rank " << r << " ended with " << outcomes[r].code << ": " << outcomes[r].output;
}

// All ranks but the victim end with exit code 1, in time, with the victim's name.
void expect_blamed(const std::vector<Outcome>& outcomes, int victim, const std::string& text,
                   double within) {
  for (int r = 0; r < static_cast<int>(outcomes.size()); ++r) {
    if (r == victim) continue;
    const auto& one = outcomes[r];
    EXPECT_EQ(one.code, 1) << "rank " << r << ": " << one.output;
    EXPECT_LT(one.seconds, within) << "rank " << r;
    const auto wanted = outcomes[victim].name(victim) + text;
    EXPECT_NE(one.output.find(wanted), std::string::npos)
        << "rank " << r << " lacks \"" << wanted << "\"; it says: " << one.output;
  }
}

class SeveralRanks : public testing::Test {
 protected:
  void SetUp() override {
    try {
      check_gloo_available();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_F(SeveralRanks, SumsBroadcastsAndAgrees) { expect_done(run({.part = "collectives"})); }

TEST_F(SeveralRanks, HoldsAllRanksAtABarrier) { expect_done(run({.part = "waits"})); }

TEST_F(SeveralRanks, ReducesGradientsToThePlainSum) {
  expect_done(run({.part = "reduces", .size = 2, .starting = 2}));
}

TEST_F(SeveralRanks, NamesTheRankThatDisagreesOnEveryRank) {
  const auto outcomes = run({.part = "disagrees 2"});
  const std::string wanted = "the ranks do not agree on the colour: " + outcomes[2].name(2) +
                             " has \"red\", but " + outcomes[0].name(0) +
                             " and others have \"blue\"";
  for (const auto& one : outcomes) {
    EXPECT_EQ(one.code, 1);
    EXPECT_NE(one.output.find(wanted), std::string::npos) << one.output;
  }
}

// The timeout is 60 s, so these end because the loss is detected. Rank 0 is a separate case because
// it hosts the store.
TEST_F(SeveralRanks, EndsAtOnceWhenARankIsKilled) {
  const auto outcomes = run({{.part = "killed 1"}, {.part = "killed 0"}});
  expect_blamed(outcomes[0], 1, " died: connection closed", kDetected);
  expect_blamed(outcomes[1], 0, " died: connection closed", kDetected);
}

TEST_F(SeveralRanks, EndsAtOnceWhenARankFailsOrUnwindsWithoutAReason) {
  const auto outcomes = run({{.part = "throws 1"}, {.part = "throws 0"}, {.part = "unwinds 1"}});
  expect_blamed(outcomes[0], 1, " failed: no space left on device", kDetected);
  expect_blamed(outcomes[1], 0, " failed: no space left on device", kDetected);
  expect_blamed(outcomes[2], 1, " failed: it ended before the end of the run", kDetected);
}

TEST_F(SeveralRanks, UsesTheStoreOfTorchrunsAgent) {
  const auto outcomes =
      run({{.part = "collectives", .agent = true}, {.part = "killed 0", .agent = true}});
  expect_done(outcomes[0]);
  expect_blamed(outcomes[1], 0, " died: connection closed", kDetected);
}

// These must wait for their timeout, so they run together.
TEST_F(SeveralRanks, EndsAfterTheTimeLimitWhenARankStopsOrIsLateOrMissing) {
  const auto outcomes = run({{.part = "stopped 1", .timeout = 5, .stopped = 1},
                             {.part = "stopped 0", .timeout = 5, .stopped = 0},
                             {.part = "late 1", .timeout = 5, .stopped = 1},
                             {.part = "collectives", .timeout = 5, .starting = 2}});
  const std::string late = " has not reached operation 3 (barrier \"step 1\") for 5 s";
  expect_blamed(outcomes[0], 1, late, kDetected);
  EXPECT_NE(outcomes[0][0].output.find("gives no sign of life"), std::string::npos);
  expect_blamed(outcomes[1], 0, ", which hosts the store, has given no sign of life for",
                kDetected);
  expect_blamed(outcomes[2], 1, late + "; it was last seen at operation 2 (sum).", kDetected);
  for (const auto& one : outcomes[3]) {
    EXPECT_EQ(one.code, 1);
    EXPECT_NE(one.output.find("rank 2 of 3 did not start within 5 s"), std::string::npos)
        << one.output;
  }
}

TEST(Communicator, IsAloneWithoutALauncher) {
  auto comm = make_communicator({}, torch::kCPU);
  EXPECT_EQ(comm->size(), 1);
  EXPECT_EQ(comm->rank(), 0);
  auto t = torch::arange(3);
  comm->sum(t);
  comm->begin_sum(t);
  comm->finish();
  comm->broadcast(t, 0);
  EXPECT_TRUE(t.equal(torch::arange(3)));
  EXPECT_THROW_WITH(comm->broadcast(t, 1), Error, "root is 1");
  EXPECT_THROW_WITH(make_communicator({.timeout_s = 0}, torch::kCPU), UsageError, "positive");
}

}  // namespace
}  // namespace hydramix
