// SPDX-License-Identifier: Apache-2.0
// Puts waiting requests together into batches for the computing threads.
//
// First come, first served: the oldest request starts a batch, and later ones for the same model
// and kind of work join it, in their order, as long as the tokens fit. Nothing waits for a batch to
// fill: requests gather while the previous batch is computed. The queue is bounded. Requests whose
// client has left or whose deadline has passed are not computed; a thread of its own answers the
// latter when their time comes, however long the present batch takes.
//
// On a CPU one thread computes, with all cores. On a GPU a second one prepares its batch and
// answers while the GPU computes that of the first. It begins when half as many tokens wait as are
// being computed, because the host launches a small batch no faster than a large one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "serve/http_error.h"
#include "serve/metrics.h"
#include "serve/work.h"

namespace hydramix::serve {

using Outcome = std::variant<std::vector<WorkResult>, HttpError>;

struct Job {
  Work work;
  std::chrono::steady_clock::time_point deadline;
  std::atomic<bool> abandoned = false;  // the client has left
  std::function<void(Outcome)> done;    // called once, by a thread of the batcher
};

class Batcher {
 public:
  // compute(works): the results of each text or image of each work, in order. All works have the
  // same model and kind.
  using Compute =
      std::function<std::vector<std::vector<WorkResult>>(std::span<const Work* const> works)>;

  // compute is called by `threads` threads at once.
  Batcher(int64_t max_batch_tokens, Compute compute, Metrics& metrics, int64_t threads = 1);
  ~Batcher();

  // After stop() the answer is 503.
  void submit(std::shared_ptr<Job> job);
  // Waits for the present batches and answers what waits with 503.
  void stop();
  // Seconds until the queue is about empty, at the rate of the last batches; at least 1.
  int64_t retry_after() const;
  // The error where the last computations have all failed, and then also that of the smallest
  // input, as on a GPU that is gone; else empty. A success clears it, and so does some time without
  // a further failure.
  std::string failure() const;
  void forget_failures();  // after the models were opened again

 private:
  using Jobs = std::vector<std::shared_ptr<Job>>;
  class Computing;
  static constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  void run();
  void watch_deadlines();
  Jobs room_for_queue() const;
  Jobs take_late();
  Jobs take_batch();
  bool should_begin() const;
  void compute_batch(const Jobs& batch, Computing& computing);
  std::vector<Outcome> outcomes_of(std::span<const Work* const> works);
  void count_failure(const Work& failed, const std::string& error);

  const int64_t max_batch_tokens_;
  const Compute compute_;
  Metrics& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, deadline_changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  int64_t queued_tokens_ = 0, computed_tokens_ = 0;  // that wait, that are being computed
  double tokens_per_second_ = 0;                     // of a thread
  // The earliest deadline in the queue, until which the watcher sleeps.
  std::chrono::steady_clock::time_point next_deadline_ = kNever;
  int64_t failures_ = 0;  // since the last success
  std::string last_failure_;
  std::chrono::steady_clock::time_point unhealthy_until_ = {};
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::thread watcher_;
};

}  // namespace hydramix::serve
