// SPDX-License-Identifier: Apache-2.0
// Ranks as real processes: this program forks itself, once a rank, with a launcher's environment
// and the name of a part to play. Parts print what they found; the tests read it. Only the forks
// use LibTorch: it would start threads, which a fork does not take along.
#include "train/communicator.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "support/ports.h"
#include "train/gradient_reducer.h"
#include "train/process_group.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;

// ---------------------------------------------------------------------------------------------
// The ranks' side

void expect(bool condition, const std::string& what) {
  if (!condition) throw Error("expected: " + what);
}

torch::Tensor of_rank(int64_t rank) { return torch::arange(5, torch::kDouble) + 10 * rank; }

// Sums of several kinds, some at once, in an order that differs from that of waiting.
void collectives(Communicator& comm) {
  const int64_t n = comm.size(), r = comm.rank();
  auto t = of_rank(r);
  comm.sum(t);
  expect(t.equal(n * torch::arange(5, torch::kDouble) + 10 * n * (n - 1) / 2), "the sum");

  std::vector<torch::Tensor> parts;
  for (int64_t i = 0; i < 20; ++i) {
    parts.push_back(torch::full({100 + i}, static_cast<float>(r + i)));
    comm.begin_sum(parts.back());
  }
  comm.finish();
  for (int64_t i = 0; i < 20; ++i)
    expect(parts[i].eq(static_cast<float>(n * (n - 1) / 2 + n * i)).all().item<bool>(),
           "sum " + std::to_string(i) + " of those begun");

  for (int64_t root = 0; root < n; ++root) {
    auto copy = of_rank(r);
    comm.broadcast(copy, root);
    expect(copy.equal(of_rank(root)), "rank " + std::to_string(root) + "'s tensor");
  }
  comm.barrier("a barrier");
  comm.agree("the colour", "blue");
  comm.agree("nothing", "");
}

// A barrier holds everybody back until the last has come.
void waits(Communicator& comm) {
  if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto begin = Clock::now();
  comm.barrier("the slow one");
  const auto waited = Clock::now() - begin;
  if (comm.rank() != 1) expect(waited > std::chrono::milliseconds(200), "a wait at the barrier");
}

struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(5);
    first = register_module("first", torch::nn::Linear(7, 11));
    second = register_module("second", torch::nn::Linear(11, 13));
    unused = register_parameter("unused", torch::ones({17}));
    third = register_module("third", torch::nn::Linear(13, 1));
    to(torch::kDouble);
  }
  torch::Tensor loss(int64_t rank, int64_t micro_batch) {
    auto x = torch::sin(torch::arange(28, torch::kDouble).view({4, 7}) * (1 + rank) + micro_batch);
    return third(torch::tanh(second(torch::tanh(first(x))))).square().sum();
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  torch::Tensor unused;
};

// Three micro-batches on every rank, two steps, against all ranks' gradients computed here.
void reduces(Communicator& comm) {
  constexpr int64_t kMicroBatches = 3;
  Net plain;
  for (int64_t rank = 0; rank < comm.size(); ++rank)
    for (int64_t m = 0; m < kMicroBatches; ++m) plain.loss(rank, m).backward();
  for (const int64_t bucket_bytes : {1, 800, 1 << 20}) {
    Net net;
    const auto params = net.parameters();
    int64_t n = 0;
    for (const auto& p : params) n += p.numel();
    auto flat = torch::zeros({n}, torch::kDouble);
    int64_t offset = 0;
    for (const auto& p : params) {
      p.mutable_grad() = flat.narrow(0, offset, p.numel()).view_as(p);
      offset += p.numel();
    }
    GradientReducer reducer(comm, params, flat, bucket_bytes);
    for (int step = 0; step < 2; ++step) {
      flat.zero_();
      for (int64_t m = 0; m < kMicroBatches; ++m) {
        if (m == kMicroBatches - 1) reducer.arm();
        net.loss(comm.rank(), m).backward();
      }
      reducer.finish();
      const auto wanted = plain.parameters();
      for (std::size_t i = 0; i < params.size(); ++i) {
        const auto grad =
            wanted[i].grad().defined() ? wanted[i].grad() : torch::zeros_like(wanted[i]);
        // The same terms in another order: a few roundings of float64.
        expect(torch::allclose(params[i].grad(), grad, 1e-12, 1e-12),
               "the gradient of parameter " + std::to_string(i));
      }
    }
  }
}

[[noreturn]] void stop_here(int signal) {
  std::raise(signal);
  for (;;) pause();
}

int play(const std::string& part, double timeout_s) {
  CommunicatorOptions options;
  options.timeout_s = timeout_s;
  std::unique_ptr<Communicator> comm;
  try {
    comm = make_communicator(options, torch::kCPU);
    const bool victim = part.find(' ') != std::string::npos &&
                        comm->rank() == std::stoll(part.substr(part.find(' ') + 1));
    const std::string act = part.substr(0, part.find(' '));
    auto t = torch::ones({1000});
    comm->sum(t);
    if (act == "collectives") collectives(*comm);
    if (act == "waits") waits(*comm);
    if (act == "reduces") reduces(*comm);
    if (act == "disagrees") comm->agree("the colour", victim ? "red" : "blue");
    if (act == "killed" && victim) stop_here(SIGKILL);
    if (act == "stopped" && victim) stop_here(SIGSTOP);
    if (act == "late" && victim) std::this_thread::sleep_for(std::chrono::seconds(20));
    if (act == "throws" && victim) throw Error("no space left on device");
    if (act == "unwinds" && victim) {
      comm.reset();
      throw Error("an error that nobody passed on");
    }
    comm->barrier("step 1");
    comm->sum(t);
    comm->leave();
    std::cout << "done" << std::endl;
    return 0;
  } catch (const std::exception& error) {
    if (comm) comm->abort(error.what());
    std::cout << error.what() << std::endl;
    return 1;
  }
}

// ---------------------------------------------------------------------------------------------
// The tests' side

struct Outcome {
  int code = 0;  // exit code, or minus the signal
  pid_t pid = 0;
  std::string output;
  double seconds = 0;  // until it ended; 0: it is running

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
  int starting = 3;    // ranks that really start
  int stopped = -1;    // the rank that does not end by itself: killed after the others
  bool agent = false;  // one more process hosts the store, as torchrun does
};

constexpr double kLimit = 40;  // seconds after which everything is killed

[[noreturn]] void become_rank(const Cast& cast, int rank, const std::string& port,
                              const std::string& output) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                          {"WORLD_SIZE", std::to_string(cast.size)},
                                          {"LOCAL_RANK", std::to_string(rank)},
                                          {"MASTER_ADDR", "127.0.0.1"},
                                          {"MASTER_PORT", port}})
    setenv(name.c_str(), value.c_str(), 1);
  if (cast.agent) setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  const int out = open(output.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(out, 1);
  dup2(out, 2);
  const int code = play(cast.part, cast.timeout);
#ifdef __SANITIZE_ADDRESS__
  std::_Exit(code);  // a group that has failed is left as it is, which is a leak
#else
  std::exit(code);
#endif
}

[[noreturn]] void become_agent(const std::string& port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(std::stoi(port));
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  for (;;) pause();
}

// Plays several parts at once, each with all its ranks.
std::vector<std::vector<Outcome>> run(const std::vector<Cast>& casts) {
  test::TemporaryFolder folder;
  const auto file = [&](std::size_t c, std::size_t r) {
    return (folder / (std::to_string(c) + "." + std::to_string(r))).string();
  };
  std::vector<std::vector<Outcome>> outcomes;
  std::vector<pid_t> agents;
  const auto begin = Clock::now();
  std::cout.flush();
  for (std::size_t c = 0; c < casts.size(); ++c) {
    const auto port = std::to_string(test::free_port());
    outcomes.emplace_back(casts[c].starting);
    if (casts[c].agent) {
      agents.push_back(fork());
      if (agents.back() == 0) become_agent(port);
    }
    for (int r = 0; r < casts[c].starting; ++r) {
      const pid_t pid = fork();
      if (pid == 0) become_rank(casts[c], r, port, file(c, r));
      outcomes[c][r].pid = pid;
    }
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

// The time limit is 60 s: these end because the loss is noticed, not because time is up. Rank 0 is
// a case of its own, for it hosts the store.
TEST_F(SeveralRanks, EndsAtOnceWhenARankIsKilled) {
  const auto outcomes = run({{.part = "killed 1"}, {.part = "killed 0"}});
  expect_blamed(outcomes[0], 1, " died: connection closed", 15);
  expect_blamed(outcomes[1], 0, " died: connection closed", 15);
}

TEST_F(SeveralRanks, EndsAtOnceWhenARankFailsOrUnwindsWithoutAWord) {
  const auto outcomes = run({{.part = "throws 1"}, {.part = "throws 0"}, {.part = "unwinds 1"}});
  expect_blamed(outcomes[0], 1, " failed: no space left on device", 15);
  expect_blamed(outcomes[1], 0, " failed: no space left on device", 15);
  expect_blamed(outcomes[2], 1, " failed: it ended before the end of the run", 15);
}

TEST_F(SeveralRanks, UsesTheStoreOfTorchrunsAgent) {
  const auto outcomes =
      run({{.part = "collectives", .agent = true}, {.part = "killed 0", .agent = true}});
  expect_done(outcomes[0]);
  expect_blamed(outcomes[1], 0, " died: connection closed", 15);
}

// These must use up their time limit, so they do it together.
TEST_F(SeveralRanks, EndsAfterTheTimeLimitWhenARankStopsOrIsLateOrMissing) {
  const auto outcomes = run({{.part = "stopped 1", .timeout = 3, .stopped = 1},
                             {.part = "stopped 0", .timeout = 3, .stopped = 0},
                             {.part = "late 1", .timeout = 3, .stopped = 1},
                             {.part = "collectives", .timeout = 3, .starting = 2}});
  const std::string late = " has not reached operation 3 (barrier \"step 1\") for 3 s";
  expect_blamed(outcomes[0], 1, late, 12);
  EXPECT_NE(outcomes[0][0].output.find("gives no sign of life"), std::string::npos);
  expect_blamed(outcomes[1], 0, ", which hosts the store, has given no sign of life for", 12);
  expect_blamed(outcomes[2], 1, late + "; it was last seen at operation 2 (sum).", 12);
  for (const auto& one : outcomes[3]) {
    EXPECT_EQ(one.code, 1);
    EXPECT_NE(one.output.find("rank 2 of 3 did not start within 3 s"), std::string::npos)
        << one.output;
  }
}

// The last, for it uses LibTorch in this process.
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
