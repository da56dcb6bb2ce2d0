// SPDX-License-Identifier: Apache-2.0
// Keys: who/<rank>, "host pid"; everybody, the list of them made by rank 0 (if every rank asked
// for every name, the store would answer size^2 times); absent, who did not come; left, how many
// have ended in order.
#include "train/membership.h"

#include <unistd.h>

#include <sstream>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long a thread that was told to end may take, before it counts as held by the store.
constexpr milliseconds kEndOfThread(500);

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown-host";
}

}  // namespace

Membership::Membership(const LaunchEnvironment& launched, milliseconds timeout)
    : launched_(launched), store_(open_store(launched, timeout, launched.hosts_store())) {
  auto own_connection = open_store(launched, timeout, false);
  meet(timeout);
  watch_ = std::make_shared<Watch>(launched, std::move(own_connection), names_);
  thread_ = std::thread([watch = watch_] { watch->run(); });
}

void Membership::meet(milliseconds timeout) {
  const auto limit = Clock::now() + timeout;
  const auto comes = [&](const std::string& key, milliseconds grace) {
    while (!has(*store_, key)) {
      if (Clock::now() > limit + grace) return false;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return true;
  };
  put(*store_, key_of("sign", launched_.rank), SignOfLife().text());
  put(*store_, key_of("who", launched_.rank), concat(host_name(), " ", getpid()));
  if (launched_.rank == 0) {
    std::vector<std::string> missing;
    std::string everybody;
    for (int64_t r = 0; r < launched_.size; ++r)
      if (comes(key_of("who", r), milliseconds(0)))
        everybody += read(*store_, key_of("who", r)) + "\n";
      else
        missing.push_back(concat("rank ", r));
    put(*store_, "absent", join(missing));
    put(*store_, "everybody", everybody);
  }
  HYDRAMIX_CHECK(comes("everybody", kFarewell), "rank 0 did not answer within ", seconds(timeout),
                 " at ", launched_.master_address, ":", launched_.master_port,
                 ". Is it running, and of the same version?");
  const std::string absent = read(*store_, "absent");
  if (!absent.empty()) {
    // The others look every few milliseconds, and the store must last until they have seen it.
    if (launched_.hosts_store()) std::this_thread::sleep_for(kEndOfThread);
    throw Error(concat(absent, " of ", launched_.size, " did not start within ", seconds(timeout),
                       ". Start every rank, with ", launched_.launcher,
                       ", and see their output for why they are missing."));
  }
  std::istringstream in(read(*store_, "everybody"));
  std::string host, pid;
  while (in >> host >> pid) {
    names_.push_back(concat("rank ", names_.size(), " (", host, ":pid ", pid, ")"));
    hosts_.push_back(host);
  }
}

Membership::~Membership() {
  // The host's thread may wait for others to hear why the run failed; another's, held by a stopped
  // store, is left behind with what it needs.
  if (watch_->stop(launched_.hosts_store() ? kFarewell + kEndOfThread : kEndOfThread))
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
  watch_->stop(kFarewell);
  try {
    put(*store_, key_of("sign", launched_.rank), SignOfLife::of_leaver().text());
    store_->add("left", 1);
  } catch (const std::exception& error) {
    throw Error(watch_->lost_store(reason_of(error)));
  }
  if (launched_.hosts_store()) wait_for_leavers(timeout);
}

// Every rank that has not left beats; one that does neither has died on its last steps.
void Membership::wait_for_leavers(milliseconds timeout) {
  const auto begin = Clock::now();
  std::vector<SignOfLife> before;
  for (auto next_look = begin; store_->add("left", 0) < launched_.size;) {
    std::this_thread::sleep_for(milliseconds(10));
    const auto now = Clock::now();
    if (now < next_look) continue;
    next_look = now + kFarewell;
    std::vector<SignOfLife> after;
    std::vector<std::string> late;
    bool dead = false;
    for (int64_t r = 0; r < launched_.size; ++r) {
      after.push_back(SignOfLife::of(read(*store_, key_of("sign", r))));
      if (after[r].left()) continue;
      late.push_back(name(r));
      dead = dead || (!before.empty() && before[r].beat == after[r].beat);
    }
    HYDRAMIX_CHECK(late.empty() || (!dead && now < begin + timeout), join(late),
                   " did not end in order: rank 0 has waited ",
                   seconds(std::chrono::duration_cast<milliseconds>(now - begin)),
                   " at the end of the run. See its output.");
    before = after;
  }
}

}  // namespace hydramix
