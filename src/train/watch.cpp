// SPDX-License-Identifier: Apache-2.0
// Keys: sign/<rank>, a sign of life; claims, how many gave up, of whom the first writes `why`;
// failures, above 0 once it is written; heard, how many have read it, of so many `listeners`.
#include "train/watch.h"

#include <thread>

#include "hydramix/error.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBeatsToBeDead = 4;
constexpr milliseconds kNap(20);

}  // namespace

std::string key_of(const std::string& kind, int64_t rank) { return concat(kind, "/", rank); }

// The store is asked twice a beat by every rank: with very many ranks the beat slows down.
Watch::Watch(const LaunchEnvironment& launched, StorePointer store, std::vector<std::string> names)
    : launched_(launched),
      store_(std::move(store)),
      names_(std::move(names)),
      beat_length_(std::max<int64_t>(250, launched.size)),
      contact_(Clock::now()) {}

SignOfLife Watch::next_sign() {
  const std::lock_guard lock(mutex_);
  ++own_.beat;
  return own_;
}

// Writes the sign of life; true when somebody has given up, and then failure() says why.
bool Watch::heard_of_failure() {
  put(*store_, key_of("sign", launched_.rank), next_sign().text());
  const bool failed = store_->add("failures", 0) > 0;
  {
    const std::lock_guard lock(mutex_);
    contact_ = Clock::now();
  }
  if (failed && !heard_) {
    fail(read(*store_, "why"));
    heard_ = true;
    store_->add("heard", 1);
  }
  return failed;
}

// The first reason stands.
void Watch::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = why;
  changed_.notify_all();
}

std::vector<SignOfLife> Watch::signs() {
  std::vector<SignOfLife> all;
  for (int64_t r = 0; r < launched_.size; ++r)
    all.push_back(SignOfLife::of(read(*store_, key_of("sign", r))));
  return all;
}

// The first to give up says why; all others take it over.
void Watch::tell(const std::string& why, int64_t listeners) {
  if (store_->add("claims", 1) == 1) {
    put(*store_, "listeners", std::to_string(listeners));
    put(*store_, "why", why);
    heard_ = true;
    store_->add("heard", 1);
    store_->add("failures", 1);
  } else {
    const auto limit = Clock::now() + kFarewell;
    while (!heard_of_failure() && Clock::now() < limit) std::this_thread::sleep_for(kNap);
  }
  fail(why);
  farewell();
}

// The store ends with its host: not before the others have heard.
void Watch::farewell() {
  if (!launched_.hosts_store() || !heard_) return;
  const auto listeners = std::stoll(read(*store_, "listeners"));
  const auto limit = Clock::now() + kFarewell;
  while (store_->add("heard", 0) < listeners && Clock::now() < limit)
    std::this_thread::sleep_for(kNap);
}

void Watch::find_out(const Complaint& complaint) {
  const auto before = signs();
  for (int i = 0; i < kBeatsToBeDead; ++i) {
    if (heard_of_failure()) return;
    std::this_thread::sleep_for(beat_length_);
  }
  if (heard_of_failure()) return;
  const auto verdict = judge(complaint, before, signs(), names_, launched_.rank);
  tell(verdict.text, verdict.listeners);
}

std::string Watch::lost_store(const std::string& detail) const {
  if (launched_.agent_store)
    return concat("torchrun's store at ", launched_.master_address, ":", launched_.master_port,
                  " is gone: ", detail);
  return concat(names_[0], " died: connection closed by the store that it hosts");
}

void Watch::beat() {
  heard_of_failure();
  std::unique_lock lock(mutex_);
  if (reason_to_tell_ || (complaint_ && !failure_)) {
    const auto reason = reason_to_tell_;
    const auto complaint = complaint_;
    lock.unlock();
    if (reason)
      tell(*reason, launched_.size);
    else
      find_out(*complaint);
    lock.lock();
  }
  reason_to_tell_.reset();
  complaint_.reset();
  changed_.notify_all();
  changed_.wait_for(lock, beat_length_, [&] { return stop_ || complaint_ || reason_to_tell_; });
}

void Watch::run() {
  const auto stopping = [&] {
    const std::lock_guard lock(mutex_);
    return stop_;
  };
  try {
    while (!stopping()) beat();
    farewell();
  } catch (const std::exception& error) {
    fail(lost_store(reason_of(error)));
  }
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool Watch::stop(milliseconds limit) {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, limit, [&] { return stopped_; });
}

void Watch::at(int64_t operation, const std::string& what) {
  const std::lock_guard lock(mutex_);
  own_.operation = operation;
  own_.what = what;
}

std::optional<std::string> Watch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string Watch::blame(const Complaint& complaint) {
  std::unique_lock lock(mutex_);
  if (failure_) return *failure_;
  complaint_ = complaint;
  changed_.notify_all();
  const auto silence = [&] {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - contact_);
  };
  // The thread has an answer of the store at every beat, unless the store holds it.
  while (!failure_ && !stopped_ && silence() < 2 * kBeatsToBeDead * beat_length_)
    changed_.wait_for(lock, beat_length_);
  if (!failure_) {
    failure_ = concat(launched_.agent_store ? "torchrun's store" : names_[0],
                      launched_.agent_store ? "" : ", which hosts the store,",
                      " has given no sign of life for ", seconds(silence()),
                      " (stopped, dead or unreachable)");
    return *failure_;
  }
  // On the store's host the thread may still be telling the others.
  changed_.wait_for(lock, kFarewell, [&] { return !complaint_ || stopped_; });
  return *failure_;
}

void Watch::abort(const std::string& why) noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (failure_ || stop_) return;
    reason_to_tell_ = concat(names_[launched_.rank], " failed: ", why);
    changed_.notify_all();
    changed_.wait_for(lock, 2 * kFarewell, [&] { return !reason_to_tell_ || stopped_; });
  } catch (const std::exception&) {
    // Only memory can be lacking here; the others then find out by themselves.
  }
}

}  // namespace hydramix
