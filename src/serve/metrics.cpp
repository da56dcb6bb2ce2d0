// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

#include "base/memory.h"
#include "hydramix/error.h"
#include "serve/numbers.h"

namespace hydramix::serve {
namespace {

constexpr std::array kSeconds{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                              0.2,    0.5,   1.0,   2.0,   5.0,  10.0, 30.0, 60.0};
constexpr std::array kRequests{1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0};
constexpr std::array kTokens{16.0,   32.0,   64.0,   128.0,  256.0,   512.0,
                             1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0};

void append_head(std::string& text, const char* name, const char* type, const char* help) {
  text += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void append_value(std::string& text, const char* name, const char* type, const char* help,
                  int64_t value) {
  append_head(text, name, type, help);
  text += concat(name, " ", value, "\n");
}

// 0.0005, not 5e-04: Prometheus compares the labels of buckets as text.
void append_bound(std::string& text, double bound) {
  char digits[32];
  text.append(digits,
              std::to_chars(digits, digits + sizeof digits, bound, std::chars_format::fixed).ptr);
}

void append_histogram(std::string& text, const std::string& name, const char* help,
                      const Histogram& histogram) {
  append_head(text, name.c_str(), "histogram", help);
  int64_t below = 0;
  for (std::size_t i = 0; i < histogram.bounds().size(); ++i) {
    below += histogram.counts()[i];
    text += name + "_bucket{le=\"";
    append_bound(text, histogram.bounds()[i]);
    text += concat("\"} ", below, "\n");
  }
  text += concat(name, "_bucket{le=\"+Inf\"} ", histogram.count(), "\n", name, "_sum ");
  append_number(text, histogram.sum());
  text += concat("\n", name, "_count ", histogram.count(), "\n");
}

}  // namespace

void Histogram::add(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += value;
  ++count_;
}

Metrics::Metrics()
    : latency_(kSeconds),
      batch_requests_(kRequests),
      batch_tokens_(kTokens),
      batch_seconds_(kSeconds) {}

void Metrics::count_request(const std::string& route, int status, bool computed, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
  if (computed && status == 200) latency_.add(seconds);
}

void Metrics::count_batch(int64_t requests, int64_t tokens, double seconds) {
  const std::lock_guard lock(mutex_);
  batch_requests_.add(static_cast<double>(requests));
  batch_tokens_.add(static_cast<double>(tokens));
  batch_seconds_.add(seconds);
}

void Metrics::count_connection(int change) {
  const std::lock_guard lock(mutex_);
  connections_ += change;
}

void Metrics::count_refused_connection() {
  const std::lock_guard lock(mutex_);
  ++refused_;
}

void Metrics::count_failed_accept() {
  const std::lock_guard lock(mutex_);
  ++failed_accepts_;
}

void Metrics::count_abandoned() {
  const std::lock_guard lock(mutex_);
  ++abandoned_;
}

void Metrics::set_queue(int64_t requests, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  queued_requests_ = requests;
  queued_tokens_ = tokens;
}

void Metrics::add_running(int64_t requests, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  running_requests_ += requests;
  running_tokens_ += tokens;
}

int64_t Metrics::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

std::string Metrics::prometheus() const {
  const int64_t memory = resident_memory();
  const std::lock_guard lock(mutex_);
  std::string text;
  append_head(text, "hydramix_requests_total", "counter",
              "Requests by status; 499: the client has left.");
  for (const auto& [key, count] : requests_)
    text += concat("hydramix_requests_total{route=\"", key.first, "\",status=\"", key.second,
                   "\"} ", count, "\n");
  append_histogram(
      text, "hydramix_request_duration_seconds",
      "Time from a header to the end of its answer, of computed answers with status 200.",
      latency_);
  append_histogram(text, "hydramix_batch_requests", "Requests of a batch.", batch_requests_);
  append_histogram(text, "hydramix_batch_tokens", "Tokens of a batch.", batch_tokens_);
  append_histogram(text, "hydramix_batch_duration_seconds", "Time to compute a batch.",
                   batch_seconds_);
  append_value(text, "hydramix_connections", "gauge", "Open connections.", connections_);
  append_value(text, "hydramix_connections_refused_total", "counter",
               "Connections above the limit.", refused_);
  append_value(text, "hydramix_accept_errors_total", "counter",
               "Failures to accept a connection, such as no free file descriptor.",
               failed_accepts_);
  append_value(text, "hydramix_requests_abandoned_total", "counter",
               "Requests whose client left before they had an answer.", abandoned_);
  append_value(text, "hydramix_queue_requests", "gauge", "Requests that wait.", queued_requests_);
  append_value(text, "hydramix_queue_tokens", "gauge", "Tokens that wait.", queued_tokens_);
  append_value(text, "hydramix_running_requests", "gauge", "Requests in the present batches.",
               running_requests_);
  append_value(text, "hydramix_running_tokens", "gauge", "Tokens in the present batches.",
               running_tokens_);
  append_value(text, "process_resident_memory_bytes", "gauge", "Resident memory.", memory);
  return text;
}

std::string Metrics::json() const {
  const int64_t memory = resident_memory();
  const std::lock_guard lock(mutex_);
  const double uptime =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  auto requests = nlohmann::ordered_json::array();
  for (const auto& [key, count] : requests_)
    requests.push_back({{"route", key.first}, {"status", key.second}, {"count", count}});
  const nlohmann::ordered_json all{
      {"uptime_seconds", uptime},
      {"connections", connections_},
      {"queue", {{"requests", queued_requests_}, {"tokens", queued_tokens_}}},
      {"running", {{"requests", running_requests_}, {"tokens", running_tokens_}}},
      {"requests", requests},
      {"latency",
       {{"buckets", latency_.bounds()},
        {"counts", latency_.counts()},
        {"sum", latency_.sum()},
        {"count", latency_.count()}}},
      {"batches",
       {{"count", batch_requests_.count()},
        {"requests", batch_requests_.sum()},
        {"tokens", batch_tokens_.sum()},
        {"seconds", batch_seconds_.sum()},
        {"size_buckets", batch_requests_.bounds()},
        {"size_counts", batch_requests_.counts()}}},
      {"memory_bytes", memory}};
  return all.dump();
}

}  // namespace hydramix::serve
