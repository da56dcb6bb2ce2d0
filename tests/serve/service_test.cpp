// SPDX-License-Identifier: Apache-2.0
// The service without sockets: the order of its threads' work, where a test must hold one of them.
#include "serve/service.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "fake_model.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class ServiceTest : public ::testing::Test {
 protected:
  void start() {
    models.load();
    service = std::make_unique<Service>(options, models, compute);
  }
  void send(const std::string& path, const std::string& body, AnswerFunction answer) {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    std::string allowed;
    const auto match = service->admit(request, allowed);
    service->handle(*match.route, request, std::move(answer));
  }
  // Keeps the one tokenizing thread busy until let_go has its value.
  void hold_the_tokenizing_thread() {
    send("/tokenize", R"({"inputs": "w1"})",
         [gate = let_go.get_future().share()](HttpAnswer) { gate.wait(); });
  }

  // The answer to a request of any method.
  HttpAnswer ask(const std::string& method, const std::string& path, const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    std::string allowed;
    const auto match = service->admit(request, allowed);
    std::promise<HttpAnswer> answered;
    service->handle(*match.route, request,
                    [&](HttpAnswer answer) { answered.set_value(std::move(answer)); });
    return answered.get_future().get();
  }

  ServiceOptions options;
  Batcher::Compute compute = test::fake_compute;
  ModelTable models{std::vector<ModelPlace>{{"fake", "folder"}},
                    [](const ModelPlace&) { return test::fake_model(); }};
  std::promise<void> let_go;
  std::unique_ptr<Service> service;
};

TEST_F(ServiceTest, RefusesWhatIsTokenizedAfterTheStop) {
  start();
  hold_the_tokenizing_thread();
  std::promise<int> status;
  send("/embed", R"({"inputs": "w1"})",
       [&](const HttpAnswer& answer) { status.set_value(answer.status); });
  std::thread later([&] {
    std::this_thread::sleep_for(100ms);
    let_go.set_value();
  });
  service.reset();
  later.join();
  EXPECT_EQ(status.get_future().get(), 503);
}

TEST_F(ServiceTest, CountsTheTimeBeforeTokenizingToTheDeadline) {
  options.limits.deadline_seconds = 0.05;
  start();
  hold_the_tokenizing_thread();
  std::promise<int> status;
  send("/embed", R"({"inputs": "w1"})",
       [&](const HttpAnswer& answer) { status.set_value(answer.status); });
  std::this_thread::sleep_for(100ms);
  let_go.set_value();
  EXPECT_EQ(status.get_future().get(), 503);
}

// Of a request of five texts with batches of two, while another request waits.
TEST_F(ServiceTest, ComputesOthersBetweenThePartsOfALargeRequest) {
  options.max_batch_tokens = 8;  // two texts of three tokens, and not three
  std::promise<void> other_waits;
  std::vector<std::size_t> batches;  // their texts
  compute = [&](std::span<const Work* const> works) {
    if (batches.empty()) other_waits.get_future().wait();
    std::size_t texts = 0;
    for (const auto* work : works) texts += work->size();
    batches.push_back(texts);
    return test::fake_compute(works);
  };
  start();
  std::promise<std::string> large, small;
  const auto is_computing = [&] {
    return ask("GET", "/stats").body.find("\"running\":{\"requests\":1");
  };
  send("/embed", R"({"inputs": ["w0", "w1", "w2", "w3", "w4"], "normalize": false})",
       [&](const HttpAnswer& answer) { large.set_value(answer.body); });
  while (is_computing() == std::string::npos) std::this_thread::sleep_for(1ms);
  send("/embed", R"({"inputs": "w9", "normalize": false})",
       [&](const HttpAnswer& answer) { small.set_value(answer.body); });
  const auto is_waiting = [&] {
    return ask("GET", "/stats").body.find("\"queue\":{\"requests\":1");
  };
  while (is_waiting() == std::string::npos) std::this_thread::sleep_for(1ms);
  other_waits.set_value();
  EXPECT_EQ(small.get_future().get(), "[[3,14]]");
  EXPECT_EQ(large.get_future().get(), "[[3,5],[3,6],[3,7],[3,8],[3,9]]");
  EXPECT_EQ(batches, (std::vector<std::size_t>{2, 1, 2, 1}));
}

TEST_F(ServiceTest, AnswersTheOtherNamesOfTwoRoutes) {
  start();
  const std::string text = R"({"inputs": "w3", "input": "w3"})";
  EXPECT_EQ(ask("POST", "/invocations", text).body, ask("POST", "/", text).body);
  EXPECT_EQ(ask("POST", "/embeddings", text).body, ask("POST", "/v1/embeddings", text).body);
  const auto refused = ask("POST", "/embeddings", "{}");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json::parse(refused.body)["error"]["type"], "invalid_request_error");
}

TEST_F(ServiceTest, SaysWhatTextEmbeddingsInferenceSaysOfAModel) {
  start();
  const auto info = json::parse(ask("GET", "/info").body);
  EXPECT_EQ(info["model_type"], json::parse(R"({"embedding": {"pooling": "mean"}})"));
  EXPECT_EQ(info["model_dtype"], "float32");
  EXPECT_EQ(info["auto_truncate"], false);
  ModelTable classes({{"fake", "folder"}},
                     [](const ModelPlace&) { return test::fake_model("classes"); });
  classes.load();
  service = std::make_unique<Service>(options, classes, compute);
  EXPECT_EQ(json::parse(ask("GET", "/info").body)["model_type"],
            json::parse(R"({"classifier": {"id2label": {"0": "no", "1": "yes"},
                                           "label2id": {"no": 0, "yes": 1}}})"));
  service.reset();
}

TEST_F(ServiceTest, DocumentsTheRoutesThatNeedNoKey) {
  start();
  const auto paths = json::parse(ask("GET", "/openapi.json").body)["paths"];
  options.api_key = "secret";
  service = std::make_unique<Service>(options, models, compute);
  for (const auto& [path, operations] : paths.items())
    for (const auto& [method, operation] : operations.items()) {
      HttpRequest request;
      request.method = method == "get" ? "GET" : "POST";
      request.path = path;
      bool is_open = true;
      try {
        std::string allowed;
        service->admit(request, allowed);
      } catch (const HttpError& error) {
        EXPECT_EQ(error.status(), 401) << path;
        is_open = false;
      }
      EXPECT_EQ(operation.value("security", json()) == json::array(), is_open) << path;
    }
}

}  // namespace
}  // namespace hydramix::serve
