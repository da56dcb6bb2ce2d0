// SPDX-License-Identifier: Apache-2.0
#include "serve/service.h"

#include <boost/asio/post.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "serve/durations.h"
#include "serve/host_names.h"
#include "serve/http_error.h"
#include "serve/openapi.h"
#include "serve/page_route.h"
#include "serve/request_body.h"
#include "serve/runs.h"
#include "serve/work_parts.h"

namespace hydramix::serve {
namespace {

using Json = nlohmann::ordered_json;

// For each of --max-concurrent-requests: memory for large bodies, and for work and answers.
constexpr int64_t kLargeBodyBytes = 512 << 10;
constexpr int64_t kWorkBytes = 1 << 20;
constexpr std::size_t kSmallAnswer = 32 << 10;  // is not counted: /metrics must answer under load
constexpr int64_t kMostFileRequests = 16;       // that wait for files or are being answered

// "http://host:port" without its scheme.
std::string_view host_of(std::string_view origin) {
  const auto scheme = origin.find("://");
  return scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
}

bool is_openai(std::string_view path) { return path.starts_with("/v1/") || path == "/embeddings"; }

Json openai_model(const ModelFacts& model) {
  return {
      {"id", model.name}, {"object", "model"}, {"created", model.opened}, {"owned_by", "hydramix"}};
}

Json model_info(const ModelFacts& model) {
  return {{"name", model.name},
          {"kind", model.kind},
          {"task", model.task},
          {"mixer", model.mixer},
          {"layers", model.layers},
          {"d_model", model.width},
          {"parameters", model.parameters},
          {"vocab", model.tokenizer ? model.tokenizer->size() : 0},
          {"max_length", model.kind == "masked-lm" ? model.embed_length : model.predict_length},
          {"image_size", model.transform ? model.transform->size() : 0},
          {"pooling", model.pooling},
          {"labels", model.labels},
          {"pairs", model.pairs},
          {"revision", model.revision},
          {"routes", routes_of(model)}};
}

// As text-embeddings-inference has it: {"embedding": {"pooling": "mean"}}, or the labels of a
// "classifier" or a "reranker".
Json model_type(const ModelFacts& model) {
  if (model.kind == "masked-lm" || model.kind == "pairs")
    return {{"embedding", {{"pooling", model.pooling}}}};
  Json names = Json::object(), numbers = Json::object();
  for (std::size_t i = 0; i < model.labels.size(); ++i) {
    names[std::to_string(i)] = model.labels[i];
    numbers[model.labels[i]] = i;
  }
  return {{answers(model, "/rerank") ? "reranker" : "classifier",
           {{"id2label", std::move(names)}, {"label2id", std::move(numbers)}}}};
}

// Runs a task of a pool, whose threads must not end.
template <class Task>
void keep_thread(const Task& task) {
  try {
    task();
  } catch (const std::exception& error) {  // no memory for the answer, or for the error
    std::fprintf(stderr, "an answer was lost: %s\n", error.what());
  }
}

HttpAnswer json_answer(const Json& body) {
  return {.body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

}  // namespace

Service::Service(ServiceOptions options, ModelTable& models, Batcher::Compute compute_function)
    : options_(std::move(options)),
      models_(models),
      bodies_(std::max(options_.limits.max_body,
                       options_.limits.max_concurrent_requests * kLargeBodyBytes)),
      work_(options_.limits.max_concurrent_requests * kWorkBytes),
      pool_(static_cast<std::size_t>(options_.tokenizer_threads)) {
  context_ = {.limits = options_.limits,
              .auto_truncate = options_.auto_truncate,
              .prompts = options_.prompts,
              .model = [this](const std::string& name, std::string_view route) {
                return models_.find(
                    name, [route](const ModelFacts& model) { return answers(model, route); });
              }};
  batcher_ = std::make_unique<Batcher>(options_.max_batch_tokens, std::move(compute_function),
                                       metrics_, options_.computing_threads);
  add_routes();
}

Service::~Service() { stop(); }

void Service::stop() {
  stopping_ = true;
  files_.join();
  batcher_->stop();  // its last answers still go through the pool
  pool_.join();      // what still waits is answered with 503
}

void Service::add_routes() {
  const auto computed = [&](const char* pattern, PrepareRequest prepare) {
    router_.add({.method = "POST", .pattern = pattern, .prepare = prepare});
  };
  computed("/embed", prepare_embed);
  computed("/embed_all", prepare_embed_all);
  computed("/predict", prepare_predict);
  computed("/rerank", prepare_rerank);
  computed("/similarity", prepare_similarity);
  computed("/fill-mask", prepare_fill_mask);
  computed("/matrix", prepare_matrix);
  computed("/tokenize", prepare_tokenize);
  computed("/decode", prepare_decode);
  computed("/v1/embeddings", prepare_openai_embeddings);
  computed("/embeddings", prepare_openai_embeddings);
  computed("/classify", prepare_classify);
  computed("/", prepare_main);
  computed("/invocations", prepare_main);

  const auto get = [&](const char* pattern, std::function<HttpAnswer(const HttpRequest&)> answer,
                       bool is_public = false) {
    router_.add(
        {.method = "GET", .pattern = pattern, .answer = std::move(answer), .is_public = is_public});
  };
  for (const char* path : {"/health", "/ping"})
    get(
        path, [this](const HttpRequest&) { return health(); }, /*is_public=*/true);
  get(
      "/ready", [this](const HttpRequest&) { return readiness(); }, /*is_public=*/true);
  get("/info", [this](const HttpRequest&) { return HttpAnswer{.body = info()}; });
  get("/metrics", [this](const HttpRequest&) {
    return HttpAnswer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .body = metrics_.prometheus()};
  });
  get("/stats", [this](const HttpRequest&) { return HttpAnswer{.body = metrics_.json()}; });
  get("/openapi.json", [](const HttpRequest&) { return HttpAnswer{.body = openapi_document()}; });
  get("/v1/models", [this](const HttpRequest&) {
    auto list = Json::array();
    for (const auto& model : models_.all()) list.push_back(openai_model(*model));
    return json_answer({{"object", "list"}, {"data", list}});
  });
  get("/v1/models/{}", [this](const HttpRequest& request) {
    return json_answer(openai_model(*models_.find(request.parameter)));
  });

  for (const auto path : page_paths())
    get(std::string(path).c_str(), page_answer, /*is_public=*/true);

  const auto files = [&](const char* method, const char* pattern,
                         std::function<HttpAnswer(const HttpRequest&)> answer) {
    router_.add(
        {.method = method, .pattern = pattern, .answer = std::move(answer), .reads_files = true});
  };
  files("GET", "/runs",
        [this](const HttpRequest&) { return HttpAnswer{.body = runs_list(options_.runs)}; });
  files("GET", "/runs/{}/metrics", [this](const HttpRequest& request) {
    return HttpAnswer{
        .body = run_metrics(options_.runs, request.parameter, query_value(request.query, "after"))};
  });
  files("POST", "/reload", [this](const HttpRequest& request) {
    RequestBody body(request.body.empty() ? "{}" : request.body);
    const auto name = body.text("model", "");
    body.finish();
    try {
      const auto names = models_.reload(name);
      batcher_->forget_failures();
      return json_answer({{"reloaded", names}});
    } catch (const HttpError&) {
      throw;
    } catch (const Error& error) {
      throw HttpError(424, "backend", concat(error.what(), " The old models stay in use."));
    }
  });
}

HttpAnswer Service::health() const {
  const auto failure = batcher_->failure();
  if (!failure.empty()) throw HttpError(503, "backend", failure);
  return json_answer({{"status", "ok"}});
}

HttpAnswer Service::readiness() const {
  if (draining_) throw HttpError(503, "unavailable", "the server is stopping.");
  if (!ready_) throw HttpError(503, "unavailable", "the models are being loaded.");
  health();
  return json_answer({{"status", "ready"}});
}

Router::Match Service::find_route(const HttpRequest& head) const {
  try {
    std::string allowed;
    return router_.match(head.method, head.path, allowed);
  } catch (const HttpError&) {
    return {};
  }
}

Router::Match Service::admit(const HttpRequest& head, std::string& allowed) const {
  if (options_.host_names && !is_host_of(head.host, *options_.host_names))
    throw HttpError(403, "forbidden",
                    concat("'", host_name(head.host),
                           "' (Host) is not a name of this server. --host-names allows one."));
  // A page of another site can send requests, even if it cannot read the answers.
  if (!head.origin.empty() && options_.cors_origin != "*" && head.origin != options_.cors_origin &&
      host_of(head.origin) != head.host)
    throw HttpError(403, "forbidden",
                    "the request comes from a page of another site (Origin). --cors-origin allows "
                    "one.");
  // The preflight of a browser, which sends no key.
  if (head.method == "OPTIONS" && !options_.cors_origin.empty()) return {&preflight_, ""};
  auto match = router_.match(head.method, head.path, allowed);
  if (!options_.api_key.empty() && !match.route->is_public &&
      !is_key(head.authorization, options_.api_key))
    throw HttpError(401, "unauthorized",
                    "the key is missing or wrong; send Authorization: Bearer KEY.");
  return match;
}

Service::Place Service::take_place(const Route& route) {
  if (route.prepare == nullptr && !route.reads_files) return {};
  const bool computes = route.prepare != nullptr;
  auto& taken = computes ? places_taken_ : file_places_taken_;
  if (++taken > (computes ? options_.limits.max_concurrent_requests : kMostFileRequests)) {
    --taken;
    if (!computes)
      throw HttpError(429, "overloaded",
                      concat("the server has ", kMostFileRequests,
                             " requests that read files. Try again later."));
    throw HttpError(429, "overloaded",
                    concat("the server has ", options_.limits.max_concurrent_requests,
                           " requests (--max-concurrent-requests). Try again later."));
  }
  return {&taken, [](std::atomic<int64_t>* count) { --*count; }};
}

Service::Place Service::count_accepted() {
  ++accepted_;
  return {&accepted_, [](std::atomic<int64_t>* count) { --*count; }};
}

void Service::hold_body(HeldBytes& body, int64_t bytes) const {
  if (body.try_set(bytes)) return;
  throw HttpError(429, "overloaded",
                  concat("large bodies that are arriving have ", bodies_.most(),
                         " bytes together (--max-concurrent-requests, --max-body). Try again "
                         "later."));
}

void Service::hold(HeldBytes& held, int64_t bytes) const {
  if (held.try_set(bytes)) return;
  throw HttpError(429, "overloaded",
                  concat("what the server computes and answers takes ", work_.most(),
                         " bytes (--max-concurrent-requests). Try again later."));
}

HttpAnswer Service::held_answer(HttpAnswer answer) {
  if (answer.body.size() <= kSmallAnswer) return answer;
  const auto held = std::make_shared<HeldBytes>(work_);
  hold(*held, static_cast<int64_t>(answer.body.capacity()));
  answer.held = held;
  return answer;
}

bool Service::Running::abandoned() {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void Service::Running::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  if (const auto job = job_.lock()) job->abandoned = true;
}

std::shared_ptr<Service::Running> Service::handle(const Route& route, HttpRequest request,
                                                  AnswerFunction answer) {
  auto running = std::make_shared<Running>();
  // The time in which a request waits to be tokenized counts, too.
  const auto deadline = deadline_from_now();
  auto work = [this, accepted = Accepted{route, std::move(request), std::move(answer), running,
                                         deadline}]() mutable {
    keep_thread([&] { answer_accepted(accepted); });
  };
  if (route.prepare != nullptr)
    boost::asio::post(pool_, std::move(work));
  else if (route.reads_files)
    boost::asio::post(files_, std::move(work));
  else
    work();
  return running;
}

void Service::answer_accepted(Accepted& accepted) {
  const auto& path = accepted.request.path;
  std::optional<HttpAnswer> made;
  try {
    if (stopping_) throw HttpError(503, "unavailable", "the server is stopping.");
    if (accepted.running->abandoned()) throw HttpError(503, "unavailable", "the client has left.");
    if (accepted.route.prepare != nullptr)
      made = compute(accepted);
    else
      made = held_answer(accepted.route.answer(accepted.request));
  } catch (const HttpError& error) {
    made = error_answer(error, path);
  } catch (const std::exception& error) {
    made = error_answer(HttpError(500, "internal", error.what()), path);
  }
  accepted.request.held.reset();
  if (made) accepted.answer(std::move(*made));
}

// Runs in a tokenizing thread, before and after the model.
std::optional<HttpAnswer> Service::compute(Accepted& accepted) {
  auto& [route, request, answer, running, deadline] = accepted;
  auto prepared = std::make_shared<PreparedRequest>(route.prepare(request.body, context_));
  if (!prepared->work) return held_answer({.body = prepared->answer({}), .model = prepared->model});
  const auto held = std::make_shared<HeldBytes>(work_);
  // Some answers repeat the texts of the request.
  hold(*held, prepared->work->bytes() + std::ssize(request.body));
  std::string().swap(request.body);
  request.held.reset();
  const int64_t tokens = prepared->work->tokens();
  auto parted = std::make_shared<PartedWork>();
  parted->left = parts_of(std::move(*prepared->work), options_.max_batch_tokens);
  parted->running = running;
  parted->done = [this, prepared, answer = answer, held, tokens,
                  path = request.path](Outcome outcome) {
    auto format = [this, prepared, answer, held, tokens, path, outcome = std::move(outcome)] {
      keep_thread([&] {
        auto made = computed_answer(*prepared, outcome, path);
        made.tokens = tokens;
        held->set(static_cast<int64_t>(made.body.capacity()));
        made.held = held;
        answer(std::move(made));
      });
    };
    boost::asio::post(pool_, std::move(format));
  };
  submit_part(parted, deadline);
  return {};
}

HttpAnswer Service::computed_answer(const PreparedRequest& prepared, const Outcome& outcome,
                                    const std::string& path) const {
  HttpAnswer made;
  try {
    if (const auto* error = std::get_if<HttpError>(&outcome)) throw *error;
    made.body = prepared.answer(std::get<std::vector<WorkResult>>(outcome));
  } catch (const HttpError& error) {
    made = error_answer(error, path);
  } catch (const std::exception& error) {
    made = error_answer(HttpError(500, "internal", error.what()), path);
  }
  made.model = prepared.model;
  return made;
}

void Service::submit_part(const std::shared_ptr<PartedWork>& parted,
                          std::chrono::steady_clock::time_point deadline) {
  auto job = std::make_shared<Job>();
  job->work = std::move(parted->left.front());
  parted->left.pop_front();
  job->deadline = deadline;
  job->done = [this, parted](Outcome outcome) {
    auto* results = std::get_if<std::vector<WorkResult>>(&outcome);
    if (results == nullptr) return parted->done(std::move(outcome));
    try {
      std::move(results->begin(), results->end(), std::back_inserter(parted->results));
      if (!parted->left.empty()) return submit_part(parted, deadline_from_now());
    } catch (const std::exception& error) {
      return parted->done(HttpError(500, "internal", error.what()));
    }
    parted->done(std::move(parted->results));
  };
  {
    const std::lock_guard lock(parted->running->mutex_);
    parted->running->job_ = job;
    job->abandoned = parted->running->abandoned_;
  }
  batcher_->submit(std::move(job));
}

std::chrono::steady_clock::time_point Service::deadline_from_now() const {
  return std::chrono::steady_clock::now() + duration_of(options_.limits.deadline_seconds);
}

void Service::reload_later() {
  if (reload_waits_.exchange(true)) return;
  try {
    boost::asio::post(files_, [this] { keep_thread([this] { reload_now(); }); });
  } catch (...) {
    reload_waits_ = false;
    throw;
  }
}

void Service::reload_now() {
  reload_waits_ = false;
  if (stopping_) return;
  try {
    for (const auto& name : models_.reload("")) std::fprintf(stderr, "reloaded %s\n", name.c_str());
    batcher_->forget_failures();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reload failed, the old models stay in use: %s\n", error.what());
  }
}

HttpAnswer Service::error_answer(const HttpError& error, const std::string& path) const {
  HttpAnswer answer{.status = error.status(), .body = error_body(error, is_openai(path))};
  if (error.status() == 429)
    answer.headers.emplace_back("Retry-After", std::to_string(batcher_->retry_after()));
  if (error.status() == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

void Service::complete(const HttpRequest& request, HttpAnswer& answer) const {
  answer.headers.emplace_back("X-Request-Id", request.id);
  answer.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (options_.cors_origin.empty()) return;
  answer.headers.emplace_back("Access-Control-Allow-Origin", options_.cors_origin);
  // A preflight allows what it asks for: OpenAI's client, for one, sends headers of its own.
  const bool asks = request.method == "OPTIONS" && !request.requested_headers.empty();
  answer.headers.emplace_back("Access-Control-Allow-Headers",
                              asks ? request.requested_headers : "Authorization, Content-Type");
  answer.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  answer.headers.emplace_back("Vary", "Origin, Access-Control-Request-Headers");
}

std::string Service::info() const {
  auto models = Json::array();
  int64_t length = 0;
  const auto opened = models_.all();
  for (const auto& model : opened) {
    models.push_back(model_info(*model));
    if (length == 0) length = models.back()["max_length"].get<int64_t>();
  }
  const auto first = opened.empty() ? nullptr : opened.front();
  const Json all{{"version", options_.version},
                 {"model_id", first ? Json(first->name) : Json("")},
                 {"model_type", first ? model_type(*first) : Json()},
                 {"model_dtype", options_.device == "cpu" ? "float32" : "bfloat16"},
                 {"auto_truncate", options_.auto_truncate},
                 {"device", options_.device},
                 {"max_concurrent_requests", options_.limits.max_concurrent_requests},
                 {"max_batch_tokens", options_.max_batch_tokens},
                 {"max_client_batch_size", options_.limits.max_client_batch_size},
                 {"max_input_length", length},
                 {"max_request_tokens", options_.limits.max_request_tokens},
                 {"max_openai_inputs", options_.limits.max_openai_inputs},
                 {"max_openai_tokens", options_.limits.max_openai_tokens},
                 {"tokenization_workers", options_.tokenizer_threads},
                 {"runs", !options_.runs.empty()},
                 {"draining", draining_.load()},
                 {"models", models}};
  return json_answer(all).body;
}

}  // namespace hydramix::serve
