// SPDX-License-Identifier: Apache-2.0
// Answers a request once its header has arrived. It checks the request, finds its route, and lets
// the tokenizing threads and the batcher compute if the route needs a model. It uses no sockets.
#pragma once

#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "serve/batcher.h"
#include "serve/held_bytes.h"
#include "serve/http_message.h"
#include "serve/limits.h"
#include "serve/metrics.h"
#include "serve/model_table.h"
#include "serve/router.h"
#include "serve/text_routes.h"

namespace hydramix::serve {

struct ServiceOptions {
  Limits limits = {};
  std::string api_key = {};      // empty: none needed
  std::string cors_origin = {};  // empty: no other site's page may use the server
  // The names that requests may have as Host; none: any name.
  std::optional<std::vector<std::string>> host_names = {};
  std::filesystem::path runs = {};
  std::map<std::string, std::string> prompts = {};
  bool auto_truncate = false;
  int64_t tokenizer_threads = 1;
  int64_t computing_threads = 1;
  int64_t max_batch_tokens = 2048;
  std::string device = "cpu", version = {};
};

class Service {
 public:
  Service(ServiceOptions options, ModelTable& models, Batcher::Compute compute);
  ~Service();

  // Answers what waits with 503 and ends the threads. No request may come afterwards.
  void stop();

  // A slot among the requests that wait, are computed or are being answered; destroying the last
  // copy frees it.
  using Place = std::shared_ptr<void>;

  // The route of a method and a path, whether or not the request is allowed; null where there is
  // none.
  Router::Match find_route(const HttpRequest& head) const;
  // The route of a request whose header has arrived; throws an HttpError where it is refused.
  Router::Match admit(const HttpRequest& head, std::string& allowed) const;
  // Null for a route that neither computes nor reads files. Throws the HttpError 429 if all slots
  // of its kind are taken.
  Place take_place(const Route& route);

  // Counts a request that has arrived completely until the copies are gone.
  Place count_accepted();
  int64_t accepted() const { return accepted_; }

  // Counts the bytes of a large body until its request is prepared. hold_body() throws the
  // HttpError 429 where all have too many together.
  std::shared_ptr<HeldBytes> no_body() { return std::make_shared<HeldBytes>(bodies_); }
  void hold_body(HeldBytes& body, int64_t bytes) const;

  // A request that is being answered.
  class Running {
   public:
    void abandon();  // its client has left
    bool abandoned();

   private:
    friend class Service;
    std::mutex mutex_;
    std::weak_ptr<Job> job_;  // the job holds the session, which holds this
    bool abandoned_ = false;
  };
  // Calls `answer` once, from any thread.
  std::shared_ptr<Running> handle(const Route& route, HttpRequest request, AnswerFunction answer);

  HttpAnswer error_answer(const HttpError& error, const std::string& path) const;
  // The headers that every answer has.
  void complete(const HttpRequest& request, HttpAnswer& answer) const;

  const Limits& limits() const { return options_.limits; }
  Metrics& metrics() { return metrics_; }
  ModelTable& models() { return models_; }
  // Opens all models again, in the thread that reads files; errors go to stderr. A call while
  // another one waits does nothing.
  void reload_later();

  void set_ready() { ready_ = true; }
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }

 private:
  // A request on its way through the threads.
  struct Accepted {
    const Route& route;
    HttpRequest request;
    AnswerFunction answer;
    std::shared_ptr<Running> running;
    std::chrono::steady_clock::time_point deadline;
  };
  // The work of a request in parts. The next one is submitted when its predecessor is computed.
  struct PartedWork {
    std::deque<Work> left;
    std::vector<WorkResult> results = {};  // of the parts that are computed
    std::shared_ptr<Running> running;
    std::function<void(Outcome)> done;  // called once
  };
  void add_routes();
  void answer_accepted(Accepted& accepted);
  // The answer, unless the batcher will give it.
  std::optional<HttpAnswer> compute(Accepted& accepted);
  HttpAnswer computed_answer(const PreparedRequest& prepared, const Outcome& outcome,
                             const std::string& path) const;
  void submit_part(const std::shared_ptr<PartedWork>& parted,
                   std::chrono::steady_clock::time_point deadline);
  std::chrono::steady_clock::time_point deadline_from_now() const;
  void reload_now();
  void hold(HeldBytes& held, int64_t bytes) const;
  HttpAnswer held_answer(HttpAnswer answer);
  HttpAnswer health() const;
  HttpAnswer readiness() const;
  std::string info() const;

  const ServiceOptions options_;
  ModelTable& models_;
  RouteContext context_;
  Metrics metrics_;
  ByteBudget bodies_;  // large ones that arrive or wait to be prepared
  ByteBudget work_;    // what is prepared, its results and the answers
  Router router_;
  const Route preflight_{.method = "OPTIONS",
                         .pattern = "preflight",
                         .answer = [](const HttpRequest&) { return HttpAnswer{.status = 204}; }};
  std::atomic<int64_t> places_taken_ = 0, file_places_taken_ = 0, accepted_ = 0;
  std::atomic<bool> ready_ = false, draining_ = false, stopping_ = false, reload_waits_ = false;
  boost::asio::thread_pool pool_;      // tokenizes and formats answers
  boost::asio::thread_pool files_{1};  // reloads models and reads runs, which may take long
  std::unique_ptr<Batcher> batcher_;
};

}  // namespace hydramix::serve
