// SPDX-License-Identifier: Apache-2.0
#include "serve/batcher.h"

#include <algorithm>
#include <cmath>

namespace hydramix::serve {
namespace {

HttpError backend_error(const std::exception& error) { return {424, "backend", error.what()}; }

bool share_a_batch(const Work& a, const Work& b) {
  // With different numbers of words the larger one would be computed for every [MASK] of both.
  return a.model == b.model && a.kind == b.kind && a.top == b.top && a.kind != WorkKind::kMatrices;
}

}  // namespace

Batcher::Batcher(int64_t max_batch_tokens, Compute compute, Metrics& metrics, int64_t threads)
    : max_batch_tokens_(max_batch_tokens), compute_(std::move(compute)), metrics_(metrics) {
  try {
    for (int64_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
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
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
  for (const auto& job : left) job->done(HttpError(503, "unavailable", "the server is stopping."));
}

void Batcher::submit(std::shared_ptr<Job> job) {
  const int64_t tokens = job->work.tokens();
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      queued_tokens_ += tokens;
      queue_.push_back(std::move(job));
      metrics_.set_queue(std::ssize(queue_), queued_tokens_);
    }
  }
  if (job) job->done(HttpError(503, "unavailable", "the server is stopping."));
  changed_.notify_one();
}

int64_t Batcher::retry_after() const {
  const std::lock_guard lock(mutex_);
  if (tokens_per_second_ <= 0) return 1;
  const double seconds = static_cast<double>(queued_tokens_) / tokens_per_second_ /
                         static_cast<double>(threads_.size());
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(seconds)), 1, 60);
}

void Batcher::run() {
  while (true) {
    const auto batch = next_batch();
    if (batch.empty()) return;
    compute_batch(batch);
  }
}

// Empty when the batcher stops.
Batcher::Jobs Batcher::next_batch() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return {};
    Jobs batch, late;
    int64_t tokens = 0;
    bool full = false;
    const auto now = std::chrono::steady_clock::now();
    std::deque<std::shared_ptr<Job>> rest;
    for (auto& job : queue_) {
      const int64_t its_tokens = job->work.tokens();
      const bool abandoned = job->abandoned, expired = job->deadline <= now;
      if (!abandoned && !expired && !batch.empty() &&
          (full || !share_a_batch(job->work, batch.front()->work))) {
        rest.push_back(std::move(job));
        continue;
      }
      // The oldest request is computed whatever its size; one that does not fit keeps its place,
      // and no later one overtakes it.
      if (!abandoned && !expired && !batch.empty() && tokens + its_tokens > max_batch_tokens_) {
        full = true;
        rest.push_back(std::move(job));
        continue;
      }
      queued_tokens_ -= its_tokens;
      if (abandoned || expired) {
        late.push_back(std::move(job));
        continue;
      }
      tokens += its_tokens;
      batch.push_back(std::move(job));
    }
    queue_.swap(rest);
    metrics_.set_queue(std::ssize(queue_), queued_tokens_);
    lock.unlock();
    for (const auto& job : late)
      job->done(HttpError(503, "unavailable",
                          "the request waited longer than --deadline-seconds allows. Try again, "
                          "or with fewer texts."));
    if (!batch.empty()) return batch;
    lock.lock();
  }
}

void Batcher::compute_batch(const Jobs& batch) {
  std::vector<const Work*> works;
  int64_t tokens = 0;
  for (const auto& job : batch) {
    works.push_back(&job->work);
    tokens += job->work.tokens();
  }
  metrics_.add_running(std::ssize(batch), tokens);
  const auto begin = std::chrono::steady_clock::now();
  try {
    auto results = compute_(works);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    metrics_.count_batch(std::ssize(batch), tokens, seconds);
    metrics_.add_running(-std::ssize(batch), -tokens);
    {
      const std::lock_guard lock(mutex_);
      const double rate = static_cast<double>(tokens) / std::max(seconds, 1e-6);
      tokens_per_second_ = tokens_per_second_ == 0 ? rate : 0.8 * tokens_per_second_ + 0.2 * rate;
    }
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i]->done(std::move(results[i]));
    return;
  } catch (const HttpError& error) {
    if (batch.size() == 1) batch[0]->done(error);
  } catch (const std::exception& error) {
    if (batch.size() == 1) batch[0]->done(backend_error(error));
  }
  metrics_.add_running(-std::ssize(batch), -tokens);
  // One bad text must not fail the requests that happened to be computed with it.
  if (batch.size() > 1)
    for (const auto& job : batch) compute_batch({job});
}

}  // namespace hydramix::serve
