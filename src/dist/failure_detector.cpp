// SPDX-License-Identifier: Apache-2.0
// Keys: heartbeat/<rank>; claims, the number of ranks that want to report, of which the first
// writes `report`; failures, above 0 once the report is written; acknowledged, the number of ranks
// that have read it, out of `live_ranks`.
#include "dist/failure_detector.h"

#include <thread>

#include "hydramix/error.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMissedBeats = 4;  // a rank that misses this many counts as dead
constexpr milliseconds kPollInterval(20);

}  // namespace

std::string key_of(const std::string& kind, int64_t rank) { return concat(kind, "/", rank); }

// Every rank asks the store twice a beat, so the interval grows with the number of ranks.
FailureDetector::FailureDetector(const LaunchEnvironment& launched, StorePointer store,
                                 std::vector<std::string> names)
    : launched_(launched),
      store_(std::move(store)),
      names_(std::move(names)),
      interval_(std::max<int64_t>(250, launched.size)),
      contact_(Clock::now()) {}

Heartbeat FailureDetector::next_heartbeat() {
  const std::lock_guard lock(mutex_);
  ++own_.count;
  return own_;
}

// Writes the heartbeat. True when a rank has reported a failure; failure() then has the reason.
bool FailureDetector::failure_reported() {
  put(*store_, key_of("heartbeat", launched_.rank), next_heartbeat().text());
  const bool failed = store_->add("failures", 0) > 0;
  {
    const std::lock_guard lock(mutex_);
    contact_ = Clock::now();
  }
  if (failed && !acknowledged_) {
    fail(read(*store_, "report"));
    acknowledged_ = true;
    store_->add("acknowledged", 1);
  }
  return failed;
}

// Keeps the first reason.
void FailureDetector::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = why;
  changed_.notify_all();
}

std::vector<Heartbeat> FailureDetector::heartbeats() {
  std::vector<Heartbeat> all;
  for (int64_t r = 0; r < launched_.size; ++r)
    all.push_back(Heartbeat::parse(read(*store_, key_of("heartbeat", r))));
  return all;
}

// The first rank to claim writes the report; the others adopt it.
void FailureDetector::report(const std::string& why, int64_t live_ranks) {
  if (store_->add("claims", 1) == 1) {
    put(*store_, "live_ranks", std::to_string(live_ranks));
    put(*store_, "report", why);
    acknowledged_ = true;
    store_->add("acknowledged", 1);
    store_->add("failures", 1);
  } else {
    const auto limit = Clock::now() + kReportGrace;
    while (!failure_reported() && Clock::now() < limit) std::this_thread::sleep_for(kPollInterval);
  }
  fail(why);
  wait_for_readers();
}

// The store ends with the rank that hosts it. That rank waits until the others have read the
// report.
void FailureDetector::wait_for_readers() {
  if (!launched_.hosts_store() || !acknowledged_) return;
  const auto live_ranks = std::stoll(read(*store_, "live_ranks"));
  const auto limit = Clock::now() + kReportGrace;
  while (store_->add("acknowledged", 0) < live_ranks && Clock::now() < limit)
    std::this_thread::sleep_for(kPollInterval);
}

void FailureDetector::investigate(const FailedOperation& failed) {
  const auto before = heartbeats();
  for (int i = 0; i < kMissedBeats; ++i) {
    if (failure_reported()) return;
    std::this_thread::sleep_for(interval_);
  }
  if (failure_reported()) return;
  const auto found = diagnose(failed, before, heartbeats(), names_, launched_.rank);
  report(found.text, found.live_ranks);
}

std::string FailureDetector::lost_store(const std::string& detail) const {
  if (launched_.agent_store)
    return concat("torchrun's store at ", launched_.master_address, ":", launched_.master_port,
                  " is gone: ", detail);
  return concat(names_[0], " died: connection closed by the store that it hosts");
}

// The caller holds the mutex, or is the thread, which alone changes contact_.
milliseconds FailureDetector::silence_of_store() const {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - contact_);
}

std::string FailureDetector::silent_store() const {
  return concat(launched_.agent_store ? "torchrun's store" : names_[0],
                launched_.agent_store ? "" : ", which hosts the store,",
                " has given no sign of life for ", seconds(silence_of_store()),
                " (stopped, dead or unreachable)");
}

void FailureDetector::beat() {
  failure_reported();
  std::unique_lock lock(mutex_);
  if (abort_reason_ || (failed_ && !failure_)) {
    const auto reason = abort_reason_;
    const auto failed = failed_;
    lock.unlock();
    if (reason)
      report(*reason, launched_.size);
    else
      investigate(*failed);
    lock.lock();
  }
  abort_reason_.reset();
  failed_.reset();
  changed_.notify_all();
  changed_.wait_for(lock, interval_, [&] { return stop_ || failed_ || abort_reason_; });
}

void FailureDetector::run() {
  const auto stopping = [&] {
    const std::lock_guard lock(mutex_);
    return stop_;
  };
  try {
    while (!stopping()) beat();
    wait_for_readers();
  } catch (const ConnectionSilent&) {
    fail(silent_store());
  } catch (const std::exception& error) {
    fail(lost_store(reason_of(error)));
  }
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool FailureDetector::stop(milliseconds limit) {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, limit, [&] { return stopped_; });
}

void FailureDetector::at(int64_t operation, const std::string& what) {
  const std::lock_guard lock(mutex_);
  own_.operation = operation;
  own_.what = what;
}

std::optional<std::string> FailureDetector::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string FailureDetector::explain(const FailedOperation& failed) {
  std::unique_lock lock(mutex_);
  if (failure_) return *failure_;
  failed_ = failed;
  changed_.notify_all();
  // The store answers the thread at every beat, unless it has stopped.
  while (!failure_ && !stopped_ && silence_of_store() < 2 * kMissedBeats * interval_)
    changed_.wait_for(lock, interval_);
  if (!failure_) {
    failure_ = silent_store();
    return *failure_;
  }
  // On the store's host the thread may still be waiting for the others to read the report.
  changed_.wait_for(lock, kReportGrace, [&] { return !failed_ || stopped_; });
  return *failure_;
}

void FailureDetector::abort(const std::string& why) noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (failure_ || stop_) return;
    abort_reason_ = concat(names_[launched_.rank], " failed: ", why);
    changed_.notify_all();
    changed_.wait_for(lock, 2 * kReportGrace, [&] { return !abort_reason_ || stopped_; });
  } catch (const std::exception&) {
    // Out of memory. The others notice by the missing heartbeat.
  }
}

}  // namespace hydramix
