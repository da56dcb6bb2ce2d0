// SPDX-License-Identifier: Apache-2.0
// From the start to the drain: routes, clients that leave, health, reloads.
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "running_server.h"
#include "serve/handler_loop.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class ServerLife : public test::RunningServer {};

TEST_F(ServerLife, DocumentsEveryRoute) {
  start();
  RawClient client(port);
  const auto paths = json::parse(client.get("/openapi.json").body)["paths"];
  for (const auto& route : routes_of(*test::fake_model("score")))
    EXPECT_TRUE(paths.contains(route)) << route;
  for (const char* route :
       {"/fill-mask", "/v1/models", "/v1/models/{name}", "/info", "/health", "/ready", "/metrics",
        "/stats", "/runs", "/runs/{name}/metrics", "/reload", "/openapi.json", "/", "/ping"})
    EXPECT_TRUE(paths.contains(route)) << route;
  for (const auto& [path, operations] : paths.items()) {
    const bool has_parameter = path.find('{') != std::string::npos;
    if (operations.contains("get") && !has_parameter && path != "/runs") {
      EXPECT_EQ(client.get(path).status, 200) << path;
    }
  }
}

TEST_F(ServerLife, SurvivesClientsThatLeave) {
  start();
  for (const std::string part : {"", "G", "GET /health HTTP/1.1\r\n",
                                 "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"})
    for (int i = 0; i < 10; ++i) RawClient(port).send(part);
  RawClient client(port);
  EXPECT_EQ(client.post("/embed", kEmbed).status, 200);
}

TEST_F(ServerLife, DoesNotComputeForClientsThatLeft) {
  options.service.max_batch_tokens = 3;
  hold();
  start();
  RawClient first(port);
  first.send(sized(kEmbed));
  wait_for_computed(1);
  RawClient closed(port), reset(port), ended(port), pipelined(port);
  for (auto* client : {&closed, &reset, &ended}) client->send(sized(kEmbed));
  pipelined.send(sized(kEmbed) + sized(kEmbed));
  wait_for_metric("hydramix_queue_requests 4");
  closed.leave();
  reset.reset();
  ended.end_sending();
  EXPECT_EQ(ended.read().status, 100);
  ended.reset();
  pipelined.reset();
  wait_for_metric("hydramix_requests_abandoned_total 4");
  held.set_value();
  EXPECT_EQ(first.read().status, 200);
  RawClient watcher(port);
  EXPECT_EQ(watcher.post("/embed", kEmbed).status, 200);
  EXPECT_EQ(computed, 2);
  wait_for_metric(R"(hydramix_requests_total{route="/embed",status="499"} 4)");
}

// shutdown(SHUT_WR) after a request is no leaving.
TEST_F(ServerLife, AnswersClientsThatHaveEndedTheirSending) {
  hold();
  start();
  RawClient one(port), several(port), old(port), early(port);
  one.send(sized(kEmbed));
  wait_for_computed(1);
  several.send(sized(kEmbed) + sized(kEmbed) + "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  old.send("POST /embed HTTP/1.0\r\nContent-Length: " + std::to_string(kEmbed.size()) + "\r\n\r\n" +
           kEmbed);
  for (auto* client : {&one, &several, &old}) client->end_sending();
  // An interim answer, to which a client that is gone would answer with a reset.
  EXPECT_EQ(one.read().status, 100);
  EXPECT_EQ(several.read().status, 100);
  std::this_thread::sleep_for(50ms);
  held.set_value();
  const auto reply = one.read();
  EXPECT_EQ(reply.body, "[[3,6]]");
  EXPECT_NE(reply.header.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(one.is_closed());
  EXPECT_EQ(several.read().body, "[[3,6]]");
  EXPECT_EQ(several.read().body, "[[3,6]]");
  EXPECT_EQ(several.read().status, 200);
  EXPECT_TRUE(several.is_closed());
  EXPECT_EQ(old.read().status, 200);
  early.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  early.end_sending();
  EXPECT_EQ(early.read().status, 200);
  EXPECT_TRUE(early.is_closed());
}

TEST(HandlerLoop, GoesOnAfterAnException) {
  boost::asio::io_context io;
  int handled = 0;
  boost::asio::post(io, [] { throw std::bad_alloc(); });
  boost::asio::post(io, [&] { ++handled; });
  testing::internal::CaptureStderr();
  run_handlers(io);
  EXPECT_EQ(handled, 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("bad_alloc"), std::string::npos);
}

TEST_F(ServerLife, IsNotHealthyWhileEveryComputationFails) {
  start();
  RawClient client(port);
  failing = true;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(client.get("/health").status, 200);
    EXPECT_EQ(client.post("/embed", kEmbed).status, 424);
  }
  for (const char* route : {"/health", "/ready"}) {
    const auto reply = client.get(route);
    EXPECT_EQ(reply.status, 503) << route;
    EXPECT_NE(reply.body.find("the GPU is gone"), std::string::npos) << reply.body;
  }
  failing = false;
  EXPECT_EQ(client.post("/embed", kEmbed).status, 200);
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/ready").status, 200);
}

TEST_F(ServerLife, ReloadsAModelAndKeepsTheOldOneWhereThatFails) {
  start();
  RawClient client(port);
  const auto revision = [&] {
    return json::parse(client.get("/info").body)["models"][0]["revision"].get<int>();
  };
  EXPECT_EQ(revision(), 1);
  EXPECT_EQ(client.post("/reload", "").body, R"({"reloaded":["fake"]})");
  EXPECT_EQ(revision(), 2);
  EXPECT_EQ(client.post("/reload", R"({"model": "none"})").status, 404);
  broken = true;
  const auto failed = client.post("/reload", "{}");
  EXPECT_EQ(failed.status, 424);
  EXPECT_NE(failed.body.find("is damaged"), std::string::npos);
  EXPECT_EQ(revision(), 2);
  EXPECT_EQ(client.post("/embed", kEmbed).status, 200);
}

TEST_F(ServerLife, AnswersWhileAModelIsBeingReloaded) {
  hold_reloads();
  start();
  std::vector<std::unique_ptr<RawClient>> reloading;
  for (int i = 0; i < 16; ++i) {
    reloading.push_back(std::make_unique<RawClient>(port));
    reloading.back()->send("POST /reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  }
  RawClient client(port);
  EXPECT_EQ(client.post("/embed", kEmbed).status, 200);
  // The seventeenth is refused. While some of the first are on their way, others take their places.
  int status = 0;
  std::vector<std::unique_ptr<RawClient>> more;
  for (int i = 0; i < 40 && status == 0; ++i) {
    more.push_back(std::make_unique<RawClient>(port, 0, 0.25));
    status = more.back()->post("/reload", "").status;
  }
  EXPECT_EQ(status, 429);
  EXPECT_EQ(client.post("/embed", kEmbed).status, 200);
  held_reloads.set_value();
  EXPECT_EQ(reloading.front()->read().status, 200);
}

TEST(ModelTable, KeepsAllModelsWhereOneCannotBeOpened) {
  bool broken = false;
  ModelTable models(std::vector<ModelPlace>{{"a", "a"}, {"b", "b"}}, [&](const ModelPlace& place) {
    if (broken && place.name == "b") throw Error("b: is damaged.");
    auto model = test::fake_model();
    model->name = place.name;
    return model;
  });
  models.load();
  broken = true;
  EXPECT_THROW_WITH(models.reload(""), Error, "is damaged");
  EXPECT_EQ(models.find("a")->revision, 1);
  EXPECT_EQ(models.reload("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(models.find("a")->revision, 2);
  EXPECT_EQ(models.find("b")->revision, 1);
}

TEST(ModelTable, StopsToLoadBetweenTwoModels) {
  int opened = 0;
  ModelTable models(std::vector<ModelPlace>{{"a", "a"}, {"b", "b"}}, [&](const ModelPlace&) {
    ++opened;
    return test::fake_model();
  });
  EXPECT_FALSE(models.load([&] { return opened == 1; }));
  EXPECT_EQ(opened, 1);
  EXPECT_TRUE(models.all().empty());
}

TEST_F(ServerLife, DrainsWithoutLosingARequest) {
  hold();
  start();
  RawClient working(port), idle(port), sending(port);
  EXPECT_EQ(idle.get("/health").status, 200);
  working.send(sized(kEmbed));
  wait_for_computed(1);
  const auto whole = sized(kEmbed);
  sending.send(whole.substr(0, whole.size() - 5));
  std::this_thread::sleep_for(50ms);
  server->drain();
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(RawClient(port).connected());
  sending.send(whole.substr(whole.size() - 5));
  idle.send("GET /ready HTTP/1.1\r\nHost: x\r\n\r\n");  // was on its way
  EXPECT_EQ(idle.read().status, 503);
  held.set_value();
  for (auto* client : {&working, &sending}) {
    const auto reply = client->read();
    EXPECT_EQ(reply.body, "[[3,6]]");
    EXPECT_NE(reply.header.find("Connection: close"), std::string::npos);
    client->leave();
  }
  idle.leave();
  EXPECT_TRUE(server->wait());
}

TEST_F(ServerLife, SaysWhereARequestWasNotAnsweredInTime) {
  options.service.limits.drain_seconds = 0.1;
  hold();
  start();
  RawClient client(port);
  client.send(sized(kEmbed));
  wait_for_computed(1);
  server->drain();
  EXPECT_FALSE(server->wait());
  held.set_value();
}

TEST_F(ServerLife, DoesNotCountARequestThatIsStillArriving) {
  options.service.limits.drain_seconds = 0.2;
  start();
  RawClient header(port), body(port);
  header.send("GET /hea");
  body.send(kPost + "Content-Length: 30\r\n\r\n{");
  std::this_thread::sleep_for(50ms);
  server->drain();
  EXPECT_TRUE(server->wait());
}

// The sessions that are left when time has run out end before what they use.
TEST_F(ServerLife, CanBeDestroyedWhileRequestsArriveWaitAndAreComputed) {
  options.service.limits.drain_seconds = 0.05;
  hold();
  start();
  RawClient arriving(port), computing(port), waiting(port), idle(port);
  computing.send(sized(kEmbed));
  wait_for_computed(1);
  waiting.send(sized(kEmbed));
  arriving.send(kPost + "Content-Length: 30\r\n\r\n{");
  EXPECT_EQ(idle.get("/health").status, 200);
  server->drain();
  EXPECT_FALSE(server->wait());
  held.set_value();
  server.reset();
  EXPECT_TRUE(arriving.is_closed());
  EXPECT_TRUE(computing.is_closed());
  EXPECT_TRUE(waiting.is_closed());
}

TEST_F(ServerLife, ShowsRuns) {
  test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a/b");
  const std::string lines = "{\"step\":1}\n{\"step\":2}\n";
  write_file(folder / "a/b/metrics.jsonl", lines + "{\"st");  // the last line is being written
  options.service.runs = folder.path();
  start();
  RawClient client(port);
  EXPECT_EQ(json::parse(client.get("/runs").body)["runs"][0]["name"], "a/b");
  const auto all = json::parse(client.get("/runs/a%2Fb/metrics?after=0").body);
  EXPECT_EQ(all["lines"], json::parse(R"([{"step":1},{"step":2}])"));
  EXPECT_EQ(all["next"], lines.size());
  const auto rest = json::parse(client.get("/runs/a%2Fb/metrics?after=11").body);
  EXPECT_EQ(rest["lines"], json::parse(R"([{"step":2}])"));
  EXPECT_EQ(client.get("/runs/a%2Fb/metrics?after=x").status, 400);
  EXPECT_EQ(client.get("/runs/..%2F..%2Fetc/metrics").status, 404);
  EXPECT_EQ(client.get("/runs/../metrics").status, 404);
}

TEST(ModelPlaces, HaveNames) {
  const auto places = model_places({"runs/tiny/", "x=runs/y", "runs/sst2/model"});
  EXPECT_EQ(places[0].name, "tiny");
  EXPECT_EQ(places[1].name, "x");
  EXPECT_EQ(places[1].folder, "runs/y");
  EXPECT_EQ(places[2].name, "sst2");
  EXPECT_THROW_WITH(model_places({"a/x", "b/x"}), UsageError, "two models are called 'x'");
  EXPECT_THROW_WITH(model_places({"=x"}), UsageError, "names no model");
}

}  // namespace
}  // namespace hydramix::serve
