// SPDX-License-Identifier: Apache-2.0
// Keys: name/<rank>, "host pid"; names, the list of them that rank 0 makes (if every rank read
// every name, the store would answer size^2 requests); no_start, why the run cannot start; left,
// the number of ranks that have ended in order.
#include "dist/membership.h"

#include <unistd.h>

#include <sstream>

#include "base/spelling.h"
#include "dist/connection.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A thread that has not ended this long after stop() is blocked by the store.
constexpr milliseconds kThreadGrace(500);

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown-host";
}

}  // namespace

Membership::Membership(const LaunchEnvironment& launched, milliseconds timeout)
    : launched_(launched),
      server_(launched.hosts_store() ? host_store(launched, timeout) : nullptr),
      store_(connect_store(launched, timeout)) {
  auto own_connection = connect_store(launched, timeout);
  rendezvous(timeout);
  detector_ = std::make_shared<FailureDetector>(launched, std::move(own_connection), names_);
  thread_ = std::thread([detector = detector_] { detector->run(); });
}

// Collects the names of all ranks. Returns why the run cannot start; nothing when it can.
std::string Membership::gather(milliseconds timeout, std::string& names) {
  const auto limit = Clock::now() + timeout;
  std::vector<std::string> missing;
  for (int64_t r = 0; r < launched_.size; ++r) {
    const std::string key = key_of("name", r);
    bool there = has(*store_, key);
    for (; !there && Clock::now() < limit; there = has(*store_, key)) {
      if (const auto mismatch = server_ ? server_->mismatch() : std::nullopt) return *mismatch;
      std::this_thread::sleep_for(milliseconds(10));
    }
    if (there)
      names += read(*store_, key) + "\n";
    else
      missing.push_back(concat("rank ", r));
  }
  if (missing.empty()) return "";
  const std::string refused = server_ ? server_->refused() : "";
  return concat(join(missing), " of ", launched_.size, " did not start within ", seconds(timeout),
                refused.empty() ? "" : " (" + refused + ")", ". Start every rank, with ",
                launched_.launcher, ", and see their output for why they are missing");
}

void Membership::rendezvous(milliseconds timeout) {
  const auto limit = Clock::now() + timeout;
  put(*store_, key_of("heartbeat", launched_.rank), Heartbeat().text());
  put(*store_, key_of("name", launched_.rank), concat(host_name(), " ", getpid()));
  if (launched_.rank == 0) {
    std::string names;
    put(*store_, "no_start", gather(timeout, names));
    put(*store_, "names", names);
  }
  while (!has(*store_, "names")) {
    HYDRAMIX_CHECK(Clock::now() < limit + kReportGrace, "rank 0 did not answer within ",
                   seconds(timeout), " at ", launched_.master_address, ":", launched_.master_port,
                   ". Is it running, and of the same version?");
    std::this_thread::sleep_for(milliseconds(10));
  }
  const std::string problem = read(*store_, "no_start");
  if (!problem.empty()) {
    // The store must live until the others, which poll it, have seen the reason.
    if (launched_.hosts_store()) std::this_thread::sleep_for(kThreadGrace);
    throw Error(problem + ".");
  }
  if (server_) server_->begin_run();
  std::istringstream in(read(*store_, "names"));
  std::string host, pid;
  while (in >> host >> pid) {
    names_.push_back(concat("rank ", names_.size(), " (", host, ":pid ", pid, ")"));
    hosts_.push_back(host);
  }
}

Membership::~Membership() {
  // The host's thread may wait for the others to read a failure report. A thread that a stopped
  // store blocks is detached; it shares ownership of all that it uses.
  if (detector_->stop(launched_.hosts_store() ? kReportGrace + kThreadGrace : kThreadGrace))
    thread_.join();
  else
    thread_.detach();
}

bool Membership::one_machine() const {
  for (const auto& host : hosts_)
    if (host != hosts_[0]) return false;
  return true;
}

void Membership::leave(milliseconds timeout) {
  detector_->stop(kReportGrace);
  try {
    put(*store_, key_of("heartbeat", launched_.rank), Heartbeat::of_departed().text());
    store_->add("left", 1);
  } catch (const ConnectionSilent&) {
    throw;  // stopped or unreachable, not dead
  } catch (const std::exception& error) {
    throw Error(detector_->lost_store(reason_of(error)));
  }
  if (launched_.hosts_store()) wait_for_departures(timeout);
}

// A rank that has neither left nor beats has died at the very end.
void Membership::wait_for_departures(milliseconds timeout) {
  const auto begin = Clock::now();
  std::vector<Heartbeat> before;
  for (auto next_check = begin; store_->add("left", 0) < launched_.size;) {
    std::this_thread::sleep_for(milliseconds(10));
    const auto now = Clock::now();
    if (now < next_check) continue;
    next_check = now + kReportGrace;
    std::vector<Heartbeat> after;
    std::vector<std::string> late;
    bool dead = false;
    for (int64_t r = 0; r < launched_.size; ++r) {
      after.push_back(Heartbeat::parse(read(*store_, key_of("heartbeat", r))));
      if (after[r].left()) continue;
      late.push_back(name(r));
      dead = dead || (!before.empty() && before[r].count == after[r].count);
    }
    HYDRAMIX_CHECK(late.empty() || (!dead && now < begin + timeout), join(late),
                   " did not end in order: rank 0 has waited ",
                   seconds(std::chrono::duration_cast<milliseconds>(now - begin)),
                   " at the end of the run. See its output.");
    before = after;
  }
}

}  // namespace hydramix
