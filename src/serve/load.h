// SPDX-License-Identifier: Apache-2.0
// Load on a server: sends requests over many connections for some seconds, and measures how long
// their answers take.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hydramix::serve {

struct LoadOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::string path;
  std::vector<std::string> bodies;  // sent in turn
  std::string api_key = {};
  int64_t connections = 1;
  int64_t threads = 0;  // that serve the connections; 0: half of the cores, at most 8
  double seconds = 5;
  // Requests per second, at equal intervals. 0: each connection sends its next request as soon as
  // it has the answer to the last one.
  double rate = 0;
};

struct LoadResult {
  // Latencies of the answers with status 200, ascending. With a rate they are measured from the
  // time at which a request was due, so they include the wait for a slow answer before it.
  std::vector<double> seconds;
  std::map<int, int64_t> statuses;  // answers of each status
  int64_t lost = 0;                 // requests without an answer
  int64_t reconnected = 0;          // connections that the server closed after an answer
  double elapsed = 0;               // seconds

  double percentile(double share) const;  // of `seconds`; 0 where there are none
};

// Throws an Error where the server cannot be reached.
LoadResult run_load(const LoadOptions& options);

// The body of the answer to one request; an Error where its status is not 200. An empty `body` is a
// GET.
std::string ask(const LoadOptions& server, const std::string& path, const std::string& body);

}  // namespace hydramix::serve
