// SPDX-License-Identifier: Apache-2.0
// The service without sockets: the order of its threads' work, where a test must hold one of them.
#include "serve/service.h"

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "fake_model.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;

class ServiceTest : public ::testing::Test {
 protected:
  void start() {
    models.load();
    service = std::make_unique<Service>(options, models, test::fake_compute);
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

  ServiceOptions options;
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

}  // namespace
}  // namespace hydramix::serve
