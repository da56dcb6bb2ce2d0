// SPDX-License-Identifier: Apache-2.0
// Figures of the server's work: counters and histograms, in Prometheus' text format and as
// JSON. Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace hydramix::serve {

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}
  void add(double value);
  const std::vector<double>& bounds() const { return bounds_; }
  const std::vector<int64_t>& counts() const { return counts_; }  // one more than bounds: the rest
  double sum() const { return sum_; }
  int64_t count() const { return count_; }

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
  int64_t count_ = 0;
};

class Metrics {
 public:
  Metrics();

  // `computed`: by a model. Only such answers with the status 200 have a latency, because the
  // page polls /stats.
  void count_request(const std::string& route, int status, bool computed, double seconds);
  void count_batch(int64_t requests, int64_t tokens, double seconds);
  void count_connection(int change);  // 1: opened, -1: closed
  void count_refused_connection();
  void count_failed_accept();
  void count_abandoned();  // requests whose client left
  void set_queue(int64_t requests, int64_t tokens);
  void add_running(int64_t requests, int64_t tokens);

  int64_t connections() const;
  std::string prometheus() const;
  std::string json() const;

 private:
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<std::pair<std::string, int>, int64_t> requests_;  // of a route and a status
  Histogram latency_, batch_requests_, batch_tokens_, batch_seconds_;
  int64_t connections_ = 0, refused_ = 0, failed_accepts_ = 0, abandoned_ = 0;
  int64_t queued_requests_ = 0, queued_tokens_ = 0, running_requests_ = 0, running_tokens_ = 0;
};

}  // namespace hydramix::serve
