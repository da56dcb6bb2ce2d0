// SPDX-License-Identifier: Apache-2.0
// Tortures the command: kills it, makes its files fail, takes its memory, damages its files and
// gives it hostile command lines. What it may do: end with the right result, or end with a message
// and an exit code, and give the right result when it is run again. What it may not: crash, hang,
// or give a wrong result. Prints a table of counts; the exit code is 1 if anything failed.
//
// usage: torture COMMAND PRELOAD [--quick | --long] [--seed N] [--jobs N] [--only PHASE,...]
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "torture/damage.h"
#include "torture/hostile.h"
#include "torture/workload.h"

namespace torture {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string command, preload, only;
  int size = 1;  // 0: seconds, 1: minutes, 2: everything
  unsigned seed = 1;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
};

// How an attempt ended.
enum class Outcome { same, refused, wrong };

struct Tally {
  int64_t attempts = 0, same = 0, refused = 0, failures = 0;
};

struct Worker {
  Worker(const Options& options, const fs::path& root, unsigned number)
      : server(options.command, options.preload),
        folder(root / ("worker-" + std::to_string(number))) {}
  Server server;
  fs::path folder;
};

// An attempt: returns what happened, and fills `why` where it is wrong.
// `share`: how much of the phase came before, from 0 to 1.
using Attempt = std::function<Outcome(Worker&, std::mt19937&, double share, std::string& why)>;

class Torture {
 public:
  explicit Torture(const Options& options) : options_(options) {
    char pattern[] = "/tmp/hydramix-torture-XXXXXX";
    if (mkdtemp(pattern) == nullptr) throw std::runtime_error("cannot make a folder in /tmp");
    root_ = pattern;
    for (unsigned i = 0; i < options.jobs; ++i)
      workers_.push_back(std::make_unique<Worker>(options, root_, i));
    std::printf("making the fixtures in %s\n", root_.c_str());
    make_fixtures(workers_[0]->server, root_ / "fixtures");
    measure();
  }
  ~Torture() {
    workers_.clear();
    std::error_code ignored;
    if (!failed_) fs::remove_all(root_, ignored);
  }

  int run();

 private:
  struct Measured {
    Results results;
    double seconds = 0;
    std::map<std::string, long> counts;  // operations of each kind that can fail
  };

  // Runs every workload once without a fault.
  void measure() {
    for (const auto& workload : workloads()) {
      auto& worker = *workers_[0];
      prepare(workload, root_ / "fixtures", worker.folder);
      auto request = request_of(workload, worker.folder);
      const auto counts = root_ / "counts";
      request.environment = {"HYDRAMIX_FAULT_UNDER=" + worker.folder.string(),
                             "HYDRAMIX_FAULT_COUNT=" + counts.string()};
      const auto ended = worker.server.run(request);
      if (ended.code != 0 || ended.signal != 0)
        throw std::runtime_error(workload.name + " fails without a fault: " + ended.err);
      Measured measured{results_of(workload, worker.folder, ended), ended.seconds, {}};
      std::istringstream in(contents_of(counts));
      std::string kind;
      for (long count; in >> kind >> count;) measured.counts[kind] = count;
      measured_[workload.name] = std::move(measured);
    }
  }

  // A disturbed command may give the right result, or refuse and then give it when run again.
  Outcome judge(Worker& worker, const Workload& workload, const Ended& ended, bool killed,
                bool again, std::string& why) {
    const auto& expected = measured_.at(workload.name).results;
    if (ended.timed_out) return wrong("it hangs", ended, why);
    // A C library without memory for a thread's destructors says so and aborts the process.
    const bool no_thread_memory =
        ended.signal == 6 && ended.err.find("failed to register TLS destructor") != ended.err.npos;
    if (ended.signal != 0 && !(killed && ended.signal == 9) && !no_thread_memory)
      return wrong("signal " + std::to_string(ended.signal), ended, why);
    Outcome outcome = Outcome::refused;
    if (ended.signal == 0 && ended.code == 0) {
      const auto differs = difference(results_of(workload, worker.folder, ended), expected);
      if (!differs.empty()) return wrong("exit code 0 with another " + differs, ended, why);
      outcome = Outcome::same;
    } else if (ended.signal == 0 && !has_message(ended)) {
      return wrong("exit code " + std::to_string(ended.code) + " without a message", ended, why);
    }
    if (!again || outcome == Outcome::same) return outcome;
    const auto second = worker.server.run(request_of(workload, worker.folder));
    if (second.timed_out || second.signal != 0 || second.code != 0)
      return wrong("it fails when it is run again", second, why);
    const auto differs = difference(results_of(workload, worker.folder, second), expected);
    if (!differs.empty()) return wrong("run again, it gives another " + differs, second, why);
    return outcome;
  }

  // The name of the first result that differs; empty where none does.
  static std::string difference(const Results& found, const Results& expected) {
    for (const auto& [name, contents] : expected)
      if (!found.contains(name) || found.at(name) != contents) return name;
    for (const auto& [name, contents] : found)
      if (!expected.contains(name)) return name;
    return "";
  }

  // verify lists damaged files on standard output.
  static bool has_message(const Ended& ended) {
    return ended.err.find("error: ") != ended.err.npos ||
           ended.out.find(" damaged") != ended.out.npos;
  }

  static Outcome wrong(const std::string& what, const Ended& ended, std::string& why) {
    why = what + "; exit code " + std::to_string(ended.code) + ", signal " +
          std::to_string(ended.signal) + ": " + ended.err.substr(0, 600);
    return Outcome::wrong;
  }

  const Workload& any_workload(std::mt19937& random) const {
    return workloads()[random() % workloads().size()];
  }

  // The operations of a kind of all workloads, one after the other: that at a share of them.
  std::pair<const Workload&, long> operation(const std::string& kind, double share) const {
    // Every workload has the same part of the attempts, whatever the number of its operations.
    std::vector<const Workload*> with_any;
    for (const auto& workload : workloads())
      if (measured_.at(workload.name).counts.at(kind) > 0) with_any.push_back(&workload);
    const double place = share * static_cast<double>(with_any.size());
    const auto& workload = *with_any[static_cast<std::size_t>(place)];
    const auto count = static_cast<double>(measured_.at(workload.name).counts.at(kind));
    return {workload, 1 + static_cast<long>((place - std::floor(place)) * count)};
  }

  // The n-th operation of a kind fails, for n over all of them.
  Attempt faults(const std::string& kind, std::vector<std::string> actions) {
    return [this, kind, actions](Worker& worker, std::mt19937& random, double share,
                                 std::string& why) {
      const auto& [workload, number] = operation(kind, share);
      prepare(workload, root_ / "fixtures", worker.folder);
      auto request = request_of(workload, worker.folder);
      const std::string fault =
          kind + ":" + std::to_string(number) + ":" + actions[random() % actions.size()];
      request.environment = {"HYDRAMIX_FAULT_UNDER=" + worker.folder.string(),
                             "HYDRAMIX_FAULT=" + fault};
      const auto ended = worker.server.run(request);
      // A file that was cut is lost; the command cannot give the result again.
      const auto outcome = judge(worker, workload, ended, false, kind != "map", why);
      if (!why.empty()) why = workload.name + ", " + fault + ": " + why;
      return outcome;
    };
  }

  Attempt kills() {
    return [this](Worker& worker, std::mt19937& random, double, std::string& why) {
      const auto& workload = any_workload(random);
      prepare(workload, root_ / "fixtures", worker.folder);
      auto request = request_of(workload, worker.folder);
      const double share = std::uniform_real_distribution<double>(0, 1.1)(random);
      request.kill_after = share * measured_.at(workload.name).seconds;
      const auto outcome = judge(worker, workload, worker.server.run(request), true, true, why);
      if (!why.empty())
        why = workload.name + ", killed at " + std::to_string(share) + " of its time: " + why;
      return outcome;
    };
  }

  // Little memory: from nothing to what every workload needs.
  Attempt little_memory() {
    return [this](Worker& worker, std::mt19937& random, double, std::string& why) {
      const auto& workload = any_workload(random);
      prepare(workload, root_ / "fixtures", worker.folder);
      auto request = request_of(workload, worker.folder);
      request.memory = static_cast<long>(
          1e6 * std::exp2(std::uniform_real_distribution<double>(1.5, 8)(random)));
      const auto ended = worker.server.run(request);
      auto outcome = judge(worker, workload, ended, false, true, why);
      if (outcome == Outcome::refused &&
          (ended.err + ended.out).find("memory") == std::string::npos)
        outcome = wrong("the message does not say that memory is missing", ended, why);
      if (!why.empty())
        why = workload.name + ", " + std::to_string(request.memory) + " bytes more: " + why;
      return outcome;
    };
  }

  // A tokenizer.json is compared by its meaning, its fingerprint: other tools write it otherwise.
  bool same_tokenizer(Worker& worker, const Damage& damage) {
    if (damage.file.filename() != "tokenizer.json") return false;
    const auto fingerprint = [&](const fs::path& path) {
      const auto out =
          worker.server.run({worker.folder, {"tokenizer", "inspect", "--vocab", path.string()}})
              .out;
      return out.substr(std::min(out.find("fingerprint"), out.size()));
    };
    const auto found = fingerprint(damage.file);
    return !found.empty() && found == fingerprint(root_ / "fixtures/model/tokenizer.json");
  }

  Attempt damaged_files() {
    return [this](Worker& worker, std::mt19937& random, double, std::string& why) {
      const auto damage = damage_a_file(root_ / "fixtures", worker.folder, random);
      Request request{worker.folder, {"verify", damage.verify.string()}};
      const auto ended = worker.server.run(request);
      if (ended.timed_out || ended.signal != 0 || (ended.code != 0 && ended.code != 1))
        wrong("verify", ended, why);
      else if (ended.code == 0 && !damage.is_harmless && !same_tokenizer(worker, damage))
        wrong("verify accepts it", ended, why);
      // Whatever uses the file must not crash.
      if (why.empty()) {
        const auto used = worker.server.run({worker.folder, damage.use});
        if (used.timed_out || used.signal != 0)
          wrong("the command that reads it", used, why);
        else if (used.code == 0 && ended.code != 0)
          wrong("the command that reads it accepts it", used, why);
      }
      if (!why.empty()) {
        why = damage.what + ": " + why;
        return Outcome::wrong;
      }
      return ended.code == 0 ? Outcome::same : Outcome::refused;
    };
  }

  Attempt hostile_lines() {
    const auto grammar = std::make_shared<HostileGrammar>(workers_[0]->server, root_);
    return [grammar](Worker& worker, std::mt19937& random, double, std::string& why) {
      fs::remove_all(worker.folder);
      fs::create_directories(worker.folder);
      Request request{worker.folder, grammar->line(random)};
      request.memory = 3L << 30;
      request.kill_after = 3;
      const auto ended = worker.server.run(request);
      if (ended.signal != 0 && ended.signal != 9) wrong("signal", ended, why);
      if (ended.signal == 0 && ended.code != 0 && !has_message(ended))
        wrong("no message", ended, why);
      if (ended.signal == 0 && ended.code > 2) wrong("an unknown exit code", ended, why);
      if (why.empty()) return ended.code == 0 ? Outcome::same : Outcome::refused;
      std::string line;
      for (const auto& word : request.arguments) line += " '" + word.substr(0, 200) + "'";
      why = "hydramix" + line + ": " + why;
      return Outcome::wrong;
    };
  }

  void phase(const std::string& name, int64_t count, const Attempt& attempt) {
    if (!options_.only.empty() &&
        ("," + options_.only + ",").find("," + name + ",") == std::string::npos)
      return;
    Tally tally;
    std::mutex mutex;
    std::atomic<int64_t> next = 0;
    const auto work = [&](Worker& worker) {
      for (int64_t i; (i = next++) < count;) {
        // Every attempt has its own numbers, whichever worker makes it.
        std::seed_seq seeds{options_.seed, static_cast<unsigned>(i),
                            static_cast<unsigned>(std::hash<std::string>()(name))};
        std::mt19937 random(seeds);
        std::string why;
        const auto outcome =
            attempt(worker, random, static_cast<double>(i) / static_cast<double>(count), why);
        const std::lock_guard lock(mutex);
        ++tally.attempts;
        tally.same += outcome == Outcome::same;
        tally.refused += outcome == Outcome::refused;
        if (outcome != Outcome::wrong) continue;
        if (++tally.failures <= 20) std::printf("FAILED %s: %s\n", name.c_str(), why.c_str());
        std::fflush(stdout);
      }
    };
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) threads.emplace_back(work, std::ref(*worker));
    for (auto& thread : threads) thread.join();
    failed_ = failed_ || tally.failures > 0;
    std::printf(
        "%-14s %8lld attempts  %8lld right result  %8lld refused, then right  %6lld failed\n",
        name.c_str(), static_cast<long long>(tally.attempts), static_cast<long long>(tally.same),
        static_cast<long long>(tally.refused), static_cast<long long>(tally.failures));
    std::fflush(stdout);
  }

  Options options_;
  fs::path root_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<std::string, Measured> measured_;
  bool failed_ = false;
};

int Torture::run() {
  const auto attempts = [&](int64_t few, int64_t usual, int64_t all) {
    return options_.size == 0 ? few : options_.size == 1 ? usual : all;
  };
  phase("kills", attempts(6, 100, 1000), kills());
  phase("writes", attempts(10, 150, 1000), faults("write", {"eio", "enospc", "short", "eintr"}));
  phase("reads", attempts(20, 300, 1000), faults("read", {"eio", "enomem", "short", "eintr"}));
  phase("mappings", attempts(5, 50, 200), faults("map", {"cut"}));
  phase("allocations", attempts(10, 150, 1000), faults("memory", {"enomem"}));
  phase("little memory", attempts(5, 100, 500), little_memory());
  const auto verify = workers_[0]->server.run({root_, {"verify", "--help"}});
  if (verify.code == 0)
    phase("damage", attempts(10, 200, 2000), damaged_files());
  else
    std::printf("damage: left out, this command has no verify\n");
  phase("command lines", attempts(30, 1000, 10000), hostile_lines());
  std::printf("%s\n", failed_ ? "FAILED; the folder is kept" : "all attempts as they should be");
  return failed_ ? 1 : 0;
}

}  // namespace
}  // namespace torture

int main(int argc, char** argv) {
  torture::Options options;
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] { return i + 1 < words.size() ? words[++i] : std::string(); };
    if (words[i] == "--quick")
      options.size = 0;
    else if (words[i] == "--long")
      options.size = 2;
    else if (words[i] == "--seed")
      options.seed = static_cast<unsigned>(std::atoi(value().c_str()));
    else if (words[i] == "--jobs")
      options.jobs = static_cast<unsigned>(std::max(1, std::atoi(value().c_str())));
    else if (words[i] == "--only")
      options.only = value();
    else
      paths.push_back(words[i]);
  }
  if (paths.size() != 2) {
    std::fprintf(stderr,
                 "usage: torture COMMAND PRELOAD [--quick | --long] [--seed N] [--jobs N] "
                 "[--only PHASE,...]\n");
    return 2;
  }
  options.command = paths[0];
  options.preload = paths[1];
  try {
    return torture::Torture(options).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
