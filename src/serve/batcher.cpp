// SPDX-License-Identifier: Apache-2.0
#include "serve/batcher.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "serve/patience.h"

namespace hydramix::serve {
namespace {

// After this many failures in a row the batcher tries whether the model can compute at all.
constexpr int64_t kFailuresInARow = 8;
// A server that gets no requests because it is unhealthy would never see that its model recovers.
constexpr auto kUnhealthyTime = std::chrono::seconds(30);

HttpError backend_error(const std::exception& error) { return {424, "backend", error.what()}; }

bool share_a_batch(const Work& a, const Work& b) {
  // With different numbers of words the larger one would be computed for every [MASK] of both.
  return a.model == b.model && a.kind == b.kind && a.top == b.top && a.kind != WorkKind::kMatrices;
}

Outcome stopped_error() { return HttpError(503, "unavailable", "the server is stopping."); }

Outcome late_error() {
  return HttpError(503, "unavailable",
                   "the request waited longer than --deadline-seconds allows. Try again, or with "
                   "fewer texts.");
}

// Calls `done` exactly once, with what `make` returns, and catches exceptions: one would end a
// thread of the batcher, and a second answer would go to the connection's next request.
template <class Make>
void finish(Job& job, const Make& make) {
  const auto done = std::exchange(job.done, {});
  if (!done) return;
  try {
    done(make());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "an answer was lost: %s\n", error.what());
  }
}

}  // namespace

// Counts the tokens of a batch that was taken from the queue, until it is computed.
class Batcher::Computing {
 public:
  // The caller holds the mutex.
  Computing(Batcher& batcher, const Jobs& batch) : batcher_(batcher) {
    for (const auto& job : batch) tokens_ += job->work.tokens();
    batcher_.computed_tokens_ += tokens_;
  }
  ~Computing() { end(); }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

  // Lets another thread begin.
  void end() {
    {
      const std::lock_guard lock(batcher_.mutex_);
      batcher_.computed_tokens_ -= std::exchange(tokens_, 0);
    }
    batcher_.changed_.notify_all();
  }

 private:
  Batcher& batcher_;
  int64_t tokens_ = 0;
};

Batcher::Batcher(int64_t max_batch_tokens, Compute compute, Metrics& metrics, int64_t threads)
    : max_batch_tokens_(max_batch_tokens), compute_(std::move(compute)), metrics_(metrics) {
  try {
    for (int64_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
    watcher_ = std::thread([this] { watch_deadlines(); });
  } catch (...) {  // the system has no more threads: stop those that run
    stop();
    throw;
  }
}

Batcher::~Batcher() { stop(); }

void Batcher::stop() {
  std::deque<std::shared_ptr<Job>> left;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(queue_);
  }
  changed_.notify_all();
  deadline_changed_.notify_all();
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
  if (watcher_.joinable()) watcher_.join();
  for (const auto& job : left) finish(*job, stopped_error);
}

void Batcher::submit(std::shared_ptr<Job> job) {
  const int64_t tokens = job->work.tokens();
  bool is_next = false;
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      is_next = job->deadline < next_deadline_;
      queue_.push_back(job);
      job.reset();
      queued_tokens_ += tokens;
      metrics_.set_queue(std::ssize(queue_), queued_tokens_);
    }
  }
  if (job) return finish(*job, stopped_error);
  changed_.notify_one();
  if (is_next) deadline_changed_.notify_one();
}

int64_t Batcher::retry_after() const {
  const std::lock_guard lock(mutex_);
  if (tokens_per_second_ <= 0) return 1;
  const double seconds = static_cast<double>(queued_tokens_) / tokens_per_second_ /
                         static_cast<double>(threads_.size());
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(seconds)), 1, 60);
}

std::string Batcher::failure() const {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() >= unhealthy_until_) return "";
  return concat("the last ", failures_,
                " computations have failed, the latest with: ", last_failure_);
}

void Batcher::forget_failures() {
  const std::lock_guard lock(mutex_);
  failures_ = 0;
  unhealthy_until_ = {};
}

// A text that its model cannot compute does not make the server unhealthy, however often it comes.
void Batcher::count_failure(const Work& failed, const std::string& error) {
  {
    const std::lock_guard lock(mutex_);
    last_failure_ = error;
    if (++failures_ < kFailuresInARow) return;
  }
  const auto probe = smallest_work(failed.model);
  const Work* const probes[] = {&probe};
  try {
    compute_(probes);
    forget_failures();
  } catch (const std::exception& probe_error) {
    const std::lock_guard lock(mutex_);
    last_failure_ = probe_error.what();
    unhealthy_until_ = std::chrono::steady_clock::now() + kUnhealthyTime;
  }
}

void Batcher::run() {
  while (true) {
    Jobs late, batch;
    std::optional<Computing> computing;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || should_begin(); });
      if (stopping_) return;
      late = take_late();
      batch = take_batch();
      computing.emplace(*this, batch);
      metrics_.set_queue(std::ssize(queue_), queued_tokens_);
    }
    for (const auto& job : late) finish(*job, late_error);
    if (batch.empty()) continue;
    try {
      compute_batch(batch, *computing);
    } catch (const std::exception& error) {  // no memory, for example
      for (const auto& job : batch) finish(*job, [&]() -> Outcome { return backend_error(error); });
    }
  }
}

// The caller holds the mutex.
bool Batcher::should_begin() const {
  return !queue_.empty() && 2 * queued_tokens_ >= std::min(computed_tokens_, max_batch_tokens_);
}

// Answers jobs whose deadline has passed, even while every other thread is computing.
void Batcher::watch_deadlines() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    next_deadline_ = kNever;
    for (const auto& job : queue_) next_deadline_ = std::min(next_deadline_, job->deadline);
    if (next_deadline_ == kNever)
      deadline_changed_.wait(lock);
    else
      deadline_changed_.wait_until(lock, next_deadline_);
    if (stopping_) return;
    const auto late = take_late();
    if (late.empty()) continue;
    metrics_.set_queue(std::ssize(queue_), queued_tokens_);
    lock.unlock();
    for (const auto& job : late) finish(*job, late_error);
    lock.lock();
  }
}

// The queue is a list of pointers: once there is memory for a copy of it, nothing throws while it
// has gaps.
Batcher::Jobs Batcher::room_for_queue() const {
  Jobs jobs;
  start_with_patience([&] { jobs.reserve(queue_.size()); });
  return jobs;
}

// Removes from the queue the jobs whose client has left or whose deadline has passed. The caller
// holds the mutex.
Batcher::Jobs Batcher::take_late() {
  const auto now = std::chrono::steady_clock::now();
  Jobs late = room_for_queue();
  std::erase_if(queue_, [&](const auto& job) {
    if (!job->abandoned && job->deadline > now) return false;
    queued_tokens_ -= job->work.tokens();
    late.push_back(job);
    return true;
  });
  return late;
}

// Takes the next batch from the queue. The caller holds the mutex.
Batcher::Jobs Batcher::take_batch() {
  Jobs batch = room_for_queue();
  int64_t tokens = 0;
  bool full = false;
  std::erase_if(queue_, [&](const auto& job) {
    const int64_t its_tokens = job->work.tokens();
    if (!batch.empty()) {
      if (full || !share_a_batch(job->work, batch.front()->work)) return false;
      // The oldest request is computed whatever its size; one that does not fit keeps its place,
      // and no later one overtakes it.
      full = tokens + its_tokens > max_batch_tokens_;
      if (full) return false;
    }
    tokens += its_tokens;
    batch.push_back(job);
    return true;
  });
  queued_tokens_ -= tokens;
  return batch;
}

void Batcher::compute_batch(const Jobs& batch, Computing& computing) {
  std::vector<const Work*> works;
  for (const auto& job : batch) works.push_back(&job->work);
  auto outcomes = outcomes_of(works);
  // One bad text must not fail the requests that happened to be computed with it.
  if (outcomes.empty())
    for (const auto& work : works) outcomes.push_back(std::move(outcomes_of({&work, 1}).front()));
  computing.end();
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    finish(*batch[i], [&] { return std::move(outcomes[i]); });
}

// One outcome for each work. Empty if several works fail together: the caller then computes them
// one by one.
std::vector<Outcome> Batcher::outcomes_of(std::span<const Work* const> works) {
  const int64_t requests = std::ssize(works);
  int64_t tokens = 0;
  for (const auto* work : works) tokens += work->tokens();
  metrics_.add_running(requests, tokens);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Outcome> outcomes;
  try {
    auto results = compute_(works);
    outcomes.reserve(results.size());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    metrics_.count_batch(requests, tokens, seconds);
    const std::lock_guard lock(mutex_);
    const double rate = static_cast<double>(tokens) / std::max(seconds, 1e-6);
    tokens_per_second_ = tokens_per_second_ == 0 ? rate : 0.8 * tokens_per_second_ + 0.2 * rate;
    failures_ = 0;
    unhealthy_until_ = {};
    for (auto& result : results) outcomes.emplace_back(std::move(result));
  } catch (const HttpError& error) {  // of the request, not of the model
    if (requests == 1) outcomes.emplace_back(error);
  } catch (const std::exception& error) {
    if (requests == 1) {
      count_failure(*works.front(), error.what());
      outcomes.emplace_back(backend_error(error));
    }
  }
  metrics_.add_running(-requests, -tokens);
  return outcomes;
}

}  // namespace hydramix::serve
