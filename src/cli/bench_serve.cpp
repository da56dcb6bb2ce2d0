// SPDX-License-Identifier: Apache-2.0
// hydramix bench-serve: throughput and latency of a running server over the number of clients.
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "cli/commands.h"
#include "hydramix/error.h"
#include "serve/load.h"

namespace hydramix {
namespace {

struct BenchServeOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::string model, api_key;
  std::string route = "/embed";
  std::vector<int64_t> clients = {1, 4, 16, 64};
  int64_t threads = 0;
  double seconds = 5;
  double rate = 0;
  int64_t words = 32;
  int64_t texts = 1;
  std::string json;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("host", self.host, "host of the server");
    v("port", self.port, Range{1, 65535}, "port of the server");
    v("model", self.model, "name of the model; by default the server's first");
    v("api_key", self.api_key, "the server's key");
    v("route", self.route, Choices{"/embed", "/predict", "/v1/embeddings"}, "route to measure");
    v("clients", self.clients, Range{1, 65536}, "numbers of connections at once");
    v("threads", self.threads, Range{0, 256},
      "threads that serve the connections; 0: half of the cores, at most 8");
    v("seconds", self.seconds, Range{0.1, 86400.0}, "duration of each measurement");
    v("rate", self.rate, Range{0.0, 1e9},
      "requests per second, at equal intervals; 0: each client sends as soon as it has its answer");
    v("words", self.words, Range{1, 100000}, "words of a text");
    v("texts", self.texts, Range{1, 100000}, "texts of a request");
    v("json", self.json, "file for the measurements, one JSON object per line");
  }
};

// Different texts, so that nothing can be answered from a cache.
constexpr int64_t kBodies = 64;

std::string bench_text(const BenchServeOptions& options, int64_t number) {
  static constexpr const char* kWords[] = {"the", "dog",  "sees",  "a",    "small", "bird",
                                           "and", "runs", "under", "tall", "trees", "today"};
  std::string text;
  for (int64_t w = 0; w < options.words; ++w)
    text += std::string(w > 0 ? " " : "") + kWords[(number * 7 + w * (number % 5 + 1)) % 12];
  return text;
}

int bench_serve(const BenchServeOptions& options) {
  serve::LoadOptions load{.host = options.host,
                          .port = options.port,
                          .path = options.route,
                          .bodies = {},
                          .api_key = options.api_key,
                          .threads = options.threads,
                          .seconds = options.seconds,
                          .rate = options.rate};
  int64_t tokens = 0;  // of all bodies
  for (int64_t b = 0; b < kBodies; ++b) {
    auto texts = nlohmann::json::array();
    for (int64_t t = 0; t < options.texts; ++t)
      texts.push_back(bench_text(options, b * options.texts + t));
    nlohmann::json body{{"inputs", texts}};
    if (!options.model.empty()) body["model"] = options.model;
    for (const auto& list : parse_json(serve::ask(load, "/tokenize", body.dump()), "/tokenize"))
      tokens += std::ssize(list);
    if (options.route == "/predict") {
      auto singles = nlohmann::json::array();
      for (const auto& text : texts) singles.push_back(nlohmann::json::array({text}));
      body["inputs"] = singles;
    } else if (options.route == "/v1/embeddings") {
      body.erase("inputs");
      body["input"] = texts;
    }
    load.bodies.push_back(body.dump());
  }
  const double tokens_per_request = static_cast<double>(tokens) / static_cast<double>(kBodies);
  std::printf("%s, %.1f tokens per request\n", options.route.c_str(), tokens_per_request);
  std::printf("clients  requests/s    tokens/s   p50 ms   p90 ms   p99 ms      429   other\n");
  std::unique_ptr<AtomicFile> json;
  if (!options.json.empty()) json = std::make_unique<AtomicFile>(options.json);
  bool failed = false;
  for (const int64_t clients : options.clients) {
    load.connections = clients;
    const auto result = serve::run_load(load);
    const double rate = static_cast<double>(result.seconds.size()) / result.elapsed;
    int64_t other = result.lost, refused = 0;
    for (const auto& [status, count] : result.statuses) {
      if (status == 429) refused += count;
      if (status != 200 && status != 429) other += count;
    }
    failed = failed || other > 0;
    std::printf("%7lld  %10.1f  %10.0f  %7.2f  %7.2f  %7.2f  %7lld  %6lld\n",
                static_cast<long long>(clients), rate, rate * tokens_per_request,
                1e3 * result.percentile(0.5), 1e3 * result.percentile(0.9),
                1e3 * result.percentile(0.99), static_cast<long long>(refused),
                static_cast<long long>(other));
    if (result.reconnected > 0)
      std::printf(
          "         the server closed %lld connections after an answer; they were opened again\n",
          static_cast<long long>(result.reconnected));
    std::fflush(stdout);
    if (!json) continue;
    const nlohmann::ordered_json line{{"clients", clients},
                                      {"tokens_per_request", tokens_per_request},
                                      {"requests_s", rate},
                                      {"tokens_s", rate * tokens_per_request},
                                      {"p50_ms", 1e3 * result.percentile(0.5)},
                                      {"p90_ms", 1e3 * result.percentile(0.9)},
                                      {"p99_ms", 1e3 * result.percentile(0.99)},
                                      {"refused", refused},
                                      {"other", other},
                                      {"reconnected", result.reconnected}};
    json->write(line.dump() + "\n");
  }
  if (json) json->commit();
  HYDRAMIX_CHECK(!failed, "bench-serve: some requests got neither 200 nor 429.");
  return 0;
}

}  // namespace

Command bench_serve_command() {
  return make_command<BenchServeOptions>(
      "bench-serve", "measure a running server", bench_serve,
      "Examples:\n"
      "  hydramix bench-serve --clients 1,16,256\n"
      "  hydramix bench-serve --host gpu1 --clients 64 --rate 500 --seconds 30\n"
      "Prints throughput and the percentiles of latency for each number of clients. With --rate, "
      "latency counts from the time at which a request was due. Run it on another machine, or "
      "pinned to other cores than the server's.");
}

}  // namespace hydramix
