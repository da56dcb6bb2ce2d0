// SPDX-License-Identifier: Apache-2.0
#include "train/membership.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "base/formatted.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A store is asked twice a beat by every rank; with very many ranks the beat slows down.
milliseconds beat_length(int64_t size) { return milliseconds(std::max<int64_t>(250, size)); }
constexpr int kBeatsToBeDead = 4;

// How long a rank that gives up waits for the others to have heard why.
constexpr milliseconds kFarewell(2000);
// How long a thread that was told to end may take, before it counts as held by the store.
constexpr milliseconds kEndOfThread(500);

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

std::string seconds(milliseconds time) { return formatted("%.3g s", time.count() / 1000.0); }

// What a rank writes of itself: "beat operation what".
struct SignOfLife {
  int64_t beat = 0, operation = 0;
  std::string what;

  std::string text() const { return concat(beat, " ", operation, " ", what); }
  static SignOfLife of(const std::string& text) {
    SignOfLife sign;
    std::istringstream in(text);
    in >> sign.beat >> sign.operation;
    in.ignore(1);
    std::getline(in, sign.what);
    return sign;
  }
  bool left() const { return operation < 0; }
  std::string place() const {
    return operation == 0 ? "the start" : concat("operation ", operation, " (", what, ")");
  }
};

std::string key_of(const std::string& kind, int64_t rank) { return concat(kind, "/", rank); }

}  // namespace

struct Membership::Shared {
  LaunchEnvironment launched;
  std::vector<std::string> hosts, names;  // by rank; names: "rank 1 (host:pid 1234)"
  StorePointer store;                     // the thread's own connection

  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread;
  // Under the mutex:
  SignOfLife own;
  bool stop = false, stopped = false;
  std::optional<std::string> failure;  // why the run has failed
  Clock::time_point contact = Clock::now();
  struct Question {
    Sign sign;
    milliseconds waited;
    std::string detail;
  };
  std::optional<Question> question;
  std::optional<std::string> reason_to_tell;  // of abort()
  bool told = false;                          // the others know
  // The thread's alone:
  bool heard = false;  // this rank has read the common reason

  void run();
  void beat();
  SignOfLife next_sign();
  bool heard_of_failure();
  std::vector<SignOfLife> signs();
  void find_out(const Question& asked);
  void tell(const std::string& why, int64_t listeners);
  void fail(const std::string& why);
  std::string lost_store(const std::string& detail) const;
};

SignOfLife Membership::Shared::next_sign() {
  const std::lock_guard lock(mutex);
  ++own.beat;
  return own;
}

// Writes the sign of life; true when somebody has given up, and then `failure` says why.
bool Membership::Shared::heard_of_failure() {
  put(*store, key_of("sign", launched.rank), next_sign().text());
  const bool failed = store->add("failures", 0) > 0;
  {
    const std::lock_guard lock(mutex);
    contact = Clock::now();
  }
  if (failed && !heard) {
    fail(read(*store, "why"));
    heard = true;
    store->add("heard", 1);
  }
  return failed;
}

// The first reason stands.
void Membership::Shared::fail(const std::string& why) {
  const std::lock_guard lock(mutex);
  if (!failure) failure = why;
  changed.notify_all();
}

std::vector<SignOfLife> Membership::Shared::signs() {
  std::vector<SignOfLife> all;
  for (int64_t r = 0; r < launched.size; ++r)
    all.push_back(SignOfLife::of(read(*store, key_of("sign", r))));
  return all;
}

// The first to give up says why; all others take it over.
void Membership::Shared::tell(const std::string& why, int64_t listeners) {
  if (store->add("claims", 1) == 1) {
    put(*store, "why", why);
    heard = true;
    store->add("heard", 1);
    store->add("failures", 1);
  } else {
    const auto limit = Clock::now() + kFarewell;
    while (!heard_of_failure() && Clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(20));
  }
  fail(why);
  // The store ends with its host: not before the others have heard.
  if (launched.hosts_store())
    for (const auto limit = Clock::now() + kFarewell;
         store->add("heard", 0) < listeners && Clock::now() < limit;)
      std::this_thread::sleep_for(milliseconds(20));
}

// Compares the signs of life, and tells everybody.
void Membership::Shared::find_out(const Question& asked) {
  const auto before = signs();
  for (int beat = 0; beat < kBeatsToBeDead; ++beat) {
    if (heard_of_failure()) return;
    std::this_thread::sleep_for(beat_length(launched.size));
  }
  if (heard_of_failure()) return;
  const auto after = signs();
  const auto& me = after[launched.rank];
  const std::string waiting = concat(" while rank ", launched.rank, " waited at ", me.place());
  const bool lost = asked.sign == Sign::kLost;

  std::vector<std::string> findings;
  int64_t dead = 0;
  for (int64_t r = 0; r < launched.size; ++r) {
    const auto& sign = after[r];
    if (sign.left()) {
      findings.push_back(concat(names[r], " has left the run", waiting));
    } else if (sign.beat == before[r].beat && lost) {
      findings.push_back(concat(names[r], " died: connection closed", waiting));
    } else if (sign.operation < me.operation && !lost) {
      findings.push_back(concat(names[r], " has not reached ", me.place(), " for ",
                                seconds(asked.waited), "; it was last seen at ", sign.place(),
                                sign.beat == before[r].beat
                                    ? " and gives no sign of life (stopped, dead or unreachable)"
                                    : ""));
    } else if (sign.beat == before[r].beat) {
      findings.push_back(concat(names[r], " gives no sign of life", waiting, " for ",
                                seconds(asked.waited), " (stopped, dead or unreachable)"));
    } else if (sign.operation == me.operation && sign.what != me.what) {
      findings.push_back(concat(names[r], " is at another operation: ", sign.place(), waiting));
    } else {
      continue;
    }
    dead += sign.left() || sign.beat == before[r].beat;
  }
  if (findings.empty())
    findings.push_back(concat(names[launched.rank], " lost its connections at ", me.place(),
                              ", though all ranks are alive"));
  std::string why = join(findings, "; ");
  if (!asked.detail.empty()) why += concat(" (", asked.detail, ")");
  tell(why, launched.size - dead);
}

std::string Membership::Shared::lost_store(const std::string& detail) const {
  if (launched.agent_store)
    return concat("torchrun's store at ", launched.master_address, ":", launched.master_port,
                  " is gone: ", detail);
  return concat(names[0], " died: connection closed by the store that it hosts");
}

void Membership::Shared::beat() {
  heard_of_failure();
  std::unique_lock lock(mutex);
  if (reason_to_tell && !told) {
    const std::string why = *reason_to_tell;
    lock.unlock();
    tell(why, launched.size);
    lock.lock();
    told = true;
    changed.notify_all();
  }
  if (question && !failure) {
    const Question asked = *question;
    lock.unlock();
    find_out(asked);
    lock.lock();
  }
  question.reset();
  changed.notify_all();
  changed.wait_for(lock, beat_length(launched.size),
                   [&] { return stop || question || (reason_to_tell && !told); });
}

void Membership::Shared::run() {
  try {
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        if (stop) break;
      }
      beat();
    }
  } catch (const std::exception& error) {
    fail(lost_store(reason_of(error)));
  }
  const std::lock_guard lock(mutex);
  stopped = true;
  changed.notify_all();
}

Membership::Membership(const LaunchEnvironment& launched, milliseconds timeout)
    : shared_(std::make_shared<Shared>()) {
  const auto limit = Clock::now() + timeout;
  shared_->launched = launched;
  store_ = open_store(launched, timeout, launched.hosts_store());
  shared_->store = open_store(launched, timeout, false);

  put(*store_, key_of("sign", launched.rank), SignOfLife().text());
  put(*store_, key_of("who", launched.rank), concat(host_name(), " ", getpid()));
  const auto wait_for = [&](const std::string& key, milliseconds grace) {
    while (!has(*store_, key)) {
      if (Clock::now() > limit + grace) return false;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return true;
  };
  // One list made by rank 0: if every rank asked for every name, the store would answer size^2.
  if (launched.rank == 0) {
    std::vector<std::string> missing;
    std::string all;
    for (int64_t r = 0; r < launched.size; ++r)
      if (wait_for(key_of("who", r), {}))
        all += read(*store_, key_of("who", r)) + "\n";
      else
        missing.push_back(concat("rank ", r));
    put(*store_, "absent", join(missing));
    put(*store_, "everybody", all);
  }
  HYDRAMIX_CHECK(wait_for("everybody", kFarewell), "rank 0 did not answer within ",
                 seconds(timeout), " at ", launched.master_address, ":", launched.master_port,
                 ". Is it running, and of the same version?");
  const std::string absent = read(*store_, "absent");
  if (!absent.empty() && launched.hosts_store()) std::this_thread::sleep_for(milliseconds(500));
  HYDRAMIX_CHECK(absent.empty(), absent, " of ", launched.size, " did not start within ",
                 seconds(timeout), ". Start every rank, with ", launched.launcher,
                 ", and see their output for why they are missing.");
  std::istringstream in(read(*store_, "everybody"));
  std::string host, pid;
  for (int64_t r = 0; in >> host >> pid; ++r) {
    shared_->hosts.push_back(host);
    shared_->names.push_back(concat("rank ", r, " (", host, ":pid ", pid, ")"));
  }
  shared_->thread = std::thread([shared = shared_] { shared->run(); });
}

Membership::~Membership() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const bool ended =
      shared_->changed.wait_for(lock, kEndOfThread, [&] { return shared_->stopped; });
  lock.unlock();
  // A thread that a stopped store holds is left behind with its half of the state.
  if (ended)
    shared_->thread.join();
  else
    shared_->thread.detach();
}

const std::string& Membership::name(int64_t rank) const { return shared_->names.at(rank); }

bool Membership::one_machine() const {
  for (const auto& host : shared_->hosts)
    if (host != shared_->hosts[0]) return false;
  return true;
}

void Membership::at(int64_t operation, const std::string& what) {
  const std::lock_guard lock(shared_->mutex);
  shared_->own.operation = operation;
  shared_->own.what = what;
}

std::optional<std::string> Membership::failure() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->failure;
}

std::string Membership::blame(Sign sign, milliseconds waited, const std::string& detail) {
  auto& s = *shared_;
  const auto beat = beat_length(s.launched.size);
  std::unique_lock lock(s.mutex);
  s.question = Shared::Question{sign, waited, detail};
  s.changed.notify_all();
  const auto silence = [&] {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - s.contact);
  };
  // The thread is in contact with the store at every beat, unless the store holds it.
  while (!s.failure && !s.stopped && silence() < 2 * kBeatsToBeDead * beat)
    s.changed.wait_for(lock, beat);
  if (!s.failure)
    return *(s.failure = concat(s.launched.agent_store ? "torchrun's store"
                                                       : s.names[0] + ", which hosts the store,",
                                " has given no sign of life for ", seconds(silence()),
                                " (stopped, dead or unreachable)"));
  // On the store's host the thread may still be telling the others.
  s.changed.wait_for(lock, kFarewell, [&] { return !s.question || s.stopped; });
  return *s.failure;
}

void Membership::leave(milliseconds timeout) {
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, kFarewell, [&] { return shared_->stopped; });
  }
  const auto& launched = shared_->launched;
  try {
    put(*store_, key_of("sign", launched.rank), SignOfLife{0, -1, ""}.text());
    store_->add("left", 1);
  } catch (const std::exception& error) {
    throw Error(shared_->lost_store(reason_of(error)));
  }
  if (launched.hosts_store()) wait_for_leavers(timeout);
}

// Every rank that has not left beats; one that does neither has died on its last steps.
void Membership::wait_for_leavers(milliseconds timeout) {
  const auto size = shared_->launched.size;
  const auto begin = Clock::now();
  std::vector<SignOfLife> before;
  for (auto next_look = begin; store_->add("left", 0) < size;) {
    std::this_thread::sleep_for(milliseconds(10));
    const auto now = Clock::now();
    if (now < next_look) continue;
    next_look = now + kFarewell;
    std::vector<SignOfLife> after;
    std::vector<std::string> late;
    bool dead = false;
    for (int64_t r = 0; r < size; ++r) {
      after.push_back(SignOfLife::of(read(*store_, key_of("sign", r))));
      if (after[r].left()) continue;
      late.push_back(name(r));
      dead = dead || (!before.empty() && before[r].beat == after[r].beat);
    }
    HYDRAMIX_CHECK(late.empty() || (!dead && now < begin + timeout), join(late),
                   " did not end in order: rank 0 has waited ",
                   seconds(std::chrono::duration_cast<milliseconds>(now - begin)),
                   " for it at the end of the run. See its output.");
    before = after;
  }
}

void Membership::abort(const std::string& why) noexcept {
  try {
    auto& s = *shared_;
    std::unique_lock lock(s.mutex);
    if (s.failure || s.stop) return;
    s.reason_to_tell = concat(name(s.launched.rank), " failed: ", why);
    s.changed.notify_all();
    s.changed.wait_for(lock, 2 * kFarewell, [&] { return s.told || s.stopped; });
  } catch (...) {
    // Only memory can be lacking here; the others then find out by themselves.
  }
}

}  // namespace hydramix
