// SPDX-License-Identifier: Apache-2.0
// The server behind real sockets, with a model that computes nothing: routes, limits, hostile
// requests, drain.
#include "serve/server.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <sstream>

#include "base/atomic_file.h"
#include "fake_model.h"
#include "raw_client.h"
#include "serve/handler_loop.h"
#include "serve/page_files.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::RawClient;
using test::Reply;

const std::string kEmbed = R"({"inputs": "w1", "normalize": false})";
const std::string kPost = "POST /embed HTTP/1.1\r\nHost: x\r\n";

std::string sized(const std::string& body) {
  return kPost + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    options.port = 0;
    options.access_log = false;
  }
  void start() {
    models = std::make_unique<ModelTable>(std::vector<ModelPlace>{{"fake", "folder"}},
                                          [this](const ModelPlace&) { return open(); });
    server = std::make_unique<Server>(options, *models, [this](auto works) {
      computed += static_cast<int>(works.size());
      gate.wait();
      if (failing) throw Error("the GPU is gone");
      return test::fake_compute(works);
    });
    server->start();
    server->load();
    port = server->port();
  }
  std::shared_ptr<ModelFacts> open() {
    if (opened++ > 0) reload_gate.wait();
    if (broken) throw Error("folder: is damaged.");
    return test::fake_model();
  }
  void hold() { gate = held.get_future().share(); }
  void hold_reloads() { reload_gate = held_reloads.get_future().share(); }
  void TearDown() override {
    if (!server) return;
    server->drain();
    server->wait();
  }
  // Waits until the server has taken as many requests to its model.
  void wait_for_computed(int count) {
    for (int i = 0; i < 2000 && computed < count; ++i) std::this_thread::sleep_for(5ms);
    ASSERT_GE(computed, count);
  }

  // Waits until /metrics has a line.
  void wait_for_metric(const std::string& line) {
    RawClient client(port);
    for (int i = 0; i < 1000; ++i) {
      if (client.get("/metrics").body.find(line + "\n") != std::string::npos) return;
      std::this_thread::sleep_for(5ms);
    }
    ADD_FAILURE() << "no line: " << line;
  }

  // A client has its answer a moment before the place is free.
  int status_when_there_is_a_place(RawClient& client) {
    int status = 429;
    for (int i = 0; i < 1000 && status == 429; ++i) {
      status = client.post("/embed", kEmbed).status;
      if (status == 429) std::this_thread::sleep_for(5ms);
    }
    return status;
  }

  ServerOptions options;
  std::atomic<int> computed = 0;
  std::atomic<bool> broken = false, failing = false;
  std::atomic<int> opened = 0;
  std::promise<void> held, held_reloads, open_gate;
  std::shared_future<void> gate = [this] {
    open_gate.set_value();
    return open_gate.get_future().share();
  }();
  std::shared_future<void> reload_gate = gate;
  int port = 0;
  std::unique_ptr<ModelTable> models;
  std::unique_ptr<Server> server;
};

TEST_F(ServerTest, AnswersManyRequestsOnOneConnection) {
  start();
  RawClient client(port);
  for (int i = 0; i < 20; ++i) {
    const auto reply =
        client.post("/embed", kEmbed, "X-Request-Id: my-" + std::to_string(i) + "\r\n");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "[[3,6]]");
    EXPECT_NE(reply.header.find("X-Request-Id: my-" + std::to_string(i) + "\r\n"),
              std::string::npos);
  }
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/ready").status, 200);
  EXPECT_EQ(json::parse(client.get("/info").body)["models"][0]["name"], "fake");
  EXPECT_EQ(json::parse(client.get("/v1/models").body)["data"][0]["id"], "fake");
  EXPECT_EQ(client.get("/v1/models/fake").status, 200);
  EXPECT_EQ(json::parse(client.get("/v1/models/none").body)["error"]["code"], "not_found");
  EXPECT_EQ(json::parse(client.get("/openapi.json").body)["openapi"], "3.0.3");
  EXPECT_EQ(client.post("/", kEmbed).body, "[[3,6]]");
  EXPECT_EQ(client.get("/ping").body, client.get("/health").body);
  EXPECT_EQ(client.get("/nowhere").status, 404);
  EXPECT_EQ(client.get("/runs").status, 404);
  const auto other_method = client.get("/embed");
  EXPECT_EQ(other_method.status, 405);
  EXPECT_NE(other_method.header.find("Allow: POST"), std::string::npos);
  EXPECT_NE(client.get("/metrics")
                .body.find("hydramix_requests_total{route=\"/embed\",status=\"200\"} 20\n"),
            std::string::npos);
  EXPECT_NE(client.get("/metrics").body.find("_bucket{le=\"0.0005\"}"), std::string::npos);
  const auto stats = json::parse(client.get("/stats").body);
  EXPECT_EQ(stats["batches"]["requests"], 21);
  EXPECT_EQ(stats["latency"]["count"], 21);  // of computed answers alone
  // An id that could forge a line of the log is replaced.
  EXPECT_EQ(client.get("/health", "X-Request-Id: a b\r\n").header.find("X-Request-Id: a b"),
            std::string::npos);
}

TEST_F(ServerTest, ServesThePageUnderAStrictPolicy) {
  options.service.api_key = "secret";  // the page itself needs none
  start();
  RawClient client(port);
  for (const auto path : page_paths()) {
    const auto reply = client.get(std::string(path));
    EXPECT_EQ(reply.status, 200) << path;
    EXPECT_EQ(reply.body, page_file(path)->content);
    EXPECT_NE(reply.header.find(concat("Content-Security-Policy: ", kPagePolicy)),
              std::string::npos);
    EXPECT_NE(reply.header.find(concat("Content-Type: ", page_file(path)->type)),
              std::string::npos);
    EXPECT_NE(reply.header.find("X-Content-Type-Options: nosniff"), std::string::npos);
  }
}

TEST_F(ServerTest, DocumentsEveryRoute) {
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

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  RawClient client(port);
  std::string all;
  for (int i = 0; i < 10; ++i)
    all += sized(R"({"inputs": "w)" + std::to_string(i) + R"(", "normalize": false})");
  client.send(all + "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.read().body, "[[3," + std::to_string(i + 5) + "]]");
  EXPECT_EQ(client.read().body, R"({"status":"ok"})");
}

TEST_F(ServerTest, ReadsBodiesInPieces) {
  start();
  RawClient client(port);
  const auto request = sized(kEmbed);
  for (const char byte : request) client.send(std::string(1, byte));
  EXPECT_EQ(client.read().body, "[[3,6]]");
  client.send(kPost + "Transfer-Encoding: chunked\r\n\r\n");
  for (const char byte : kEmbed) client.send(std::string("1\r\n") + byte + "\r\n");
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read().body, "[[3,6]]");
  client.send(kPost + "Expect: 100-continue\r\nContent-Length: " + std::to_string(kEmbed.size()) +
              "\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send(kEmbed);
  EXPECT_EQ(client.read().body, "[[3,6]]");
}

TEST_F(ServerTest, RefusesLargeBodiesBeforeTheyAreRead) {
  options.service.limits.max_body = 1000;
  start();
  {
    RawClient client(port);
    client.send(kPost + "Content-Length: 1001\r\n\r\n");
    EXPECT_EQ(client.read().status, 413);
    EXPECT_TRUE(client.is_closed());
  }
  RawClient client(port);  // chunks are counted as they arrive
  client.send(kPost + "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 50; ++i) client.send("64\r\n" + std::string(100, ' ') + "\r\n");
  EXPECT_EQ(client.read().status, 413);
  RawClient long_header(port);
  long_header.send("GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(20000, 'x'));
  EXPECT_EQ(long_header.read().status, 431);
}

TEST_F(ServerTest, ReadsSmallBodiesOnlyWhereNothingIsComputed) {
  start();
  RawClient client(port);
  EXPECT_EQ(client.post("/reload", "{}" + std::string((64 << 10) - 2, ' ')).status, 200);
  client.send("POST /reload HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n");
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 413);
  EXPECT_NE(reply.body.find("65536 bytes"), std::string::npos);
  RawClient chunked(port);
  chunked.send("GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) chunked.send("8000\r\n" + std::string(0x8000, ' ') + "\r\n");
  EXPECT_EQ(chunked.read().status, 413);
  RawClient computed_route(port);
  EXPECT_EQ(computed_route.post("/embed", kEmbed + std::string(70'000, ' ')).status, 200);
}

TEST_F(ServerTest, SlowBodiesLeavePlacesToOthers) {
  options.service.limits.max_concurrent_requests = 1;
  options.service.limits.max_body = 1 << 20;
  start();
  RawClient other(port);
  // The place is free when the next request of the same connection is read.
  const auto other_status = [&] {
    const int status = other.post("/embed", kEmbed).status;
    EXPECT_EQ(other.get("/health").status, 200);
    return status;
  };
  RawClient chunked(port), sized_only(port), slow(port);
  chunked.send(kPost + "Transfer-Encoding: chunked\r\n\r\n");
  sized_only.send(kPost + "Content-Length: 900000\r\n\r\n");
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(other_status(), 200);
  const auto large = sized(kEmbed + std::string(900'000, ' '));
  slow.send(large.substr(0, 800'000));
  std::this_thread::sleep_for(500ms);  // until the server has read these
  Reply refused;
  for (int i = 0; i < 500 && refused.status != 429; ++i) {
    RawClient second(port);
    second.send(large);
    refused = second.read();
    if (refused.body.find("large bodies") == std::string::npos) refused = {};
  }
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.header.find("Retry-After: "), std::string::npos);
  EXPECT_EQ(status_when_there_is_a_place(other), 200);
  EXPECT_EQ(other.get("/health").status, 200);
  slow.send(large.substr(800'000));
  const auto read_slow = [&] {
    const auto reply = slow.read();
    EXPECT_EQ(reply.status, 200) << reply.body;
  };
  read_slow();
  // All bytes have been given back.
  EXPECT_EQ(slow.get("/health").status, 200);
  slow.send(large);
  read_slow();
}

TEST_F(ServerTest, RefusesChunkExtensionsAndTrailersWithoutEnd) {
  start();
  const std::string heads[] = {"GET /health HTTP/1.1\r\nHost: x\r\n", kPost};
  for (const auto& head : heads)
    for (const std::string begin : {"1;", "0\r\nX: "}) {
      RawClient client(port);
      client.send(head + "Transfer-Encoding: chunked\r\n\r\n" + begin);
      for (int i = 0; i < 4; ++i) client.send(std::string(32 << 10, 'a'));
      EXPECT_EQ(client.read().status, 431) << begin;
    }
}

TEST_F(ServerTest, ReadsLargeBodiesAndTheRequestsAfterThem) {
  start();
  const std::string large = kEmbed + std::string(1 << 20, ' ');
  std::string chunked = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  const std::size_t step = 300'000;  // larger than the buffer
  for (std::size_t at = 0; at < large.size(); at += step) {
    const auto piece = large.substr(at, step);
    std::ostringstream size;
    size << std::hex << piece.size();
    chunked += size.str() + ";name=value\r\n" + piece + "\r\n";
  }
  RawClient client(port);
  client.send(sized(large) + chunked + "0\r\nX: trailer\r\n\r\n" + sized(kEmbed));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read().body, "[[3,6]]");
}

TEST_F(ServerTest, CutsSlowRequests) {
  options.service.limits.header_seconds = 0.3;
  options.service.limits.body_seconds = 0.3;
  options.service.limits.idle_seconds = 0.3;
  start();
  RawClient idle(port), header(port), body(port);
  header.send("GET /health HT");
  body.send(kPost + "Content-Length: 30\r\n\r\n{");
  // A byte now and then does not help.
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(50ms);
    header.send("x");
    body.send(" ");
  }
  const auto late_header = header.read(), late_body = body.read();
  EXPECT_EQ(late_header.status, 408);
  EXPECT_EQ(late_body.status, 408);
  EXPECT_NE(late_body.body.find("body"), std::string::npos);
  EXPECT_TRUE(idle.is_closed());
}

TEST_F(ServerTest, RefusesAmbiguousAndMalformedRequests) {
  start();
  const std::string body = kEmbed, length = std::to_string(body.size());
  const std::string refused[] = {
      kPost + "Content-Length: " + length + "\r\nContent-Length: 3\r\n\r\n" + body,
      kPost + "Content-Length: " + length + ", 3\r\n\r\n" + body,
      kPost + "Content-Length: " + length + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      kPost + "Transfer-Encoding: chunked\r\nContent-Length: " + length + "\r\n\r\n0\r\n\r\n",
      kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      kPost + "Transfer-Encoding: identity\r\n\r\n" + body,
      kPost + "Transfer-Encoding: xchunked\r\n\r\n" + body,
      kPost + "Content-Length: -1\r\n\r\n",
      kPost + "Content-Length: +5\r\n\r\n12345",
      kPost + "Content-Length: 99999999999999999999\r\n\r\n",
      kPost + "Content-Length : 5\r\n\r\n12345",
      "POST /embed HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "GET /health HTTP/1.1\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
      "GET /he%0 HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /health HTTP/3.7\r\nHost: x\r\n\r\n",
      "\x16\x03\x01\x02\x01\x01\xfc\x03\x03 tls?\r\n\r\n",
      "GET\r\n\r\n",
      std::string(64, '\0') + "\r\n\r\n",
  };
  for (const auto& request : refused) {
    RawClient client(port);
    client.send(request);
    EXPECT_EQ(client.read().status, 400) << request;
  }
  RawClient bad_chunk(port);
  bad_chunk.send(kPost + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n");
  EXPECT_EQ(bad_chunk.read().status, 400);
  // Bytes after a refused request on its connection are not taken for a request.
  RawClient smuggler(port);
  smuggler.send(refused[2] + "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(smuggler.read().status, 400);
  EXPECT_TRUE(smuggler.is_closed());
  RawClient client(port);
  EXPECT_EQ(client.post("/embed", kEmbed).status, 200);
  EXPECT_EQ(client.post("/embed", "{").status, 400);
}

TEST_F(ServerTest, RefusesEncodedBodies) {
  start();
  const auto status = [&](const std::string& headers) {
    RawClient client(port);
    client.send(kPost + headers + "\r\n0\r\n\r\n");
    return client.read().status;
  };
  EXPECT_EQ(status("Transfer-Encoding: gzip, chunked\r\n"), 501);
  EXPECT_EQ(status("Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), 415);
  EXPECT_EQ(status("Content-Encoding: gzip\r\nContent-Length: 5\r\n"), 415);
  RawClient client(port);
  EXPECT_EQ(client.post("/embed", kEmbed, "Content-Encoding: Identity\r\n").status, 200);
  client.send(kPost + "Transfer-Encoding: Chunked\r\n\r\n" + "24\r\n" + kEmbed + "\r\n0\r\n\r\n");
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(ServerTest, ReadsTargetsWithAHost) {
  options.service.host_names.emplace();
  start();
  const auto status = [&](const std::string& target) {
    RawClient client(port);  // a target that is refused ends its connection
    client.send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return client.read().status;
  };
  EXPECT_EQ(status("http://localhost/health"), 200);
  EXPECT_EQ(status("HTTP://127.0.0.1:8080/ready?x=1"), 200);
  EXPECT_EQ(status("http://localhost"), 200);  // the page
  EXPECT_EQ(status("http://localhost?x=/health"), 200);
  EXPECT_EQ(status("http://localhost/nowhere"), 404);
  EXPECT_EQ(status("http://evil.example/health"), 403);  // counts instead of Host
  EXPECT_EQ(status("http:///health"), 400);
  EXPECT_EQ(status("http://user@localhost/health"), 400);
}

TEST_F(ServerTest, ReadsPathsInUtf8Only) {
  start();
  const auto status = [&](const std::string& path) { return RawClient(port).get(path).status; };
  EXPECT_EQ(status("/%C3%A9"), 404);
  EXPECT_EQ(status("/%C3"), 400);
  EXPECT_EQ(status("/runs/%FF/metrics"), 400);
}

TEST_F(ServerTest, SendsNoContinueToOldClients) {
  start();
  RawClient client(port);
  client.send("POST /embed HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(kEmbed.size()) + "\r\n\r\n" + kEmbed);
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(ServerTest, SendsNoLengthWhereThereIsNoBody) {
  start();
  RawClient client(port);
  const std::string name = "ETag: ";
  const auto page = client.get("/");
  const auto begin = page.header.find(name) + name.size();
  const auto tag = page.header.substr(begin, page.header.find("\r\n", begin) - begin);
  const auto same = client.get("/", "If-None-Match: " + tag + "\r\n");
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.header.find("Content-Length"), std::string::npos);
  EXPECT_EQ(client.get("/health").status, 200);  // the connection stays
}

TEST_F(ServerTest, SurvivesClientsThatLeave) {
  start();
  for (const std::string part : {"", "G", "GET /health HTTP/1.1\r\n",
                                 "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"})
    for (int i = 0; i < 10; ++i) RawClient(port).send(part);
  RawClient client(port);
  EXPECT_EQ(client.post("/embed", kEmbed).status, 200);
}

TEST_F(ServerTest, AnswersTooManyRequestsAtOnce) {
  options.service.limits.max_concurrent_requests = 2;
  options.service.max_batch_tokens = 3;  // a request at a time
  hold();
  start();
  RawClient first(port), second(port), third(port);
  first.send(sized(kEmbed));
  wait_for_computed(1);
  second.send(sized(kEmbed));
  for (int i = 0; i < 2000; ++i) {
    if (json::parse(third.get("/stats").body)["queue"]["requests"] == 1) break;
    std::this_thread::sleep_for(5ms);
  }
  RawClient fourth(port);
  const auto refused = fourth.post("/embed", kEmbed);
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.header.find("Retry-After: "), std::string::npos);
  EXPECT_EQ(fourth.get("/health").status, 200);  // the connection stays
  held.set_value();
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  EXPECT_EQ(status_when_there_is_a_place(third), 200);
}

// A request whose answer has about 7 MB, more than the kernel's buffers take.
std::string with_large_answer() {
  std::string text;
  for (int i = 0; i < 120'000; ++i) text += "w1 ";
  return "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: " +
         std::to_string(text.size() + 14) + "\r\n\r\n{\"inputs\": \"" + text + "\"}";
}

// Its answer stays in memory.
TEST_F(ServerTest, KeepsThePlaceOfARequestWhoseAnswerIsNotRead) {
  options.service.limits.max_concurrent_requests = 1;
  options.service.limits.max_request_tokens = 1 << 20;
  start();
  RawClient slow(port, 256 << 10), other(port);
  slow.send(with_large_answer());
  ASSERT_TRUE(slow.wait_for_answer());
  EXPECT_EQ(other.post("/embed", kEmbed).status, 429);
  const auto reply = slow.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body)[0].size(), 120'002U);
  EXPECT_EQ(status_when_there_is_a_place(other), 200);
}

TEST_F(ServerTest, BoundsTheBytesOfAnswersThatAreNotRead) {
  options.service.limits.max_concurrent_requests = 3;  // 3 MiB of work and answers
  options.service.limits.max_request_tokens = 1 << 20;
  start();
  RawClient slow(port, 256 << 10), other(port, 256 << 10);
  slow.send(with_large_answer());
  ASSERT_TRUE(slow.wait_for_answer());
  other.send(with_large_answer());
  const auto refused = other.read();
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("takes 3145728 bytes"), std::string::npos) << refused.body;
  EXPECT_EQ(other.post("/embed", kEmbed).status, 429);
  EXPECT_EQ(other.get("/health").status, 200);
  EXPECT_EQ(slow.read().status, 200);
  EXPECT_EQ(status_when_there_is_a_place(other), 200);
}

TEST_F(ServerTest, CutsAnswersThatAreNotReadAndCountsThem) {
  options.access_log = true;
  options.service.limits.write_seconds = 0.3;
  options.service.limits.max_request_tokens = 1 << 20;
  testing::internal::CaptureStderr();
  start();
  RawClient slow(port, 256 << 10);
  slow.send(with_large_answer());
  ASSERT_TRUE(slow.wait_for_answer());
  wait_for_metric(R"(hydramix_requests_total{route="/tokenize",status="499"} 1)");
  const auto log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find(R"("path":"/tokenize","status":499)"), std::string::npos) << log;
}

TEST_F(ServerTest, DoesNotComputeForClientsThatLeft) {
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
TEST_F(ServerTest, AnswersClientsThatHaveEndedTheirSending) {
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

TEST_F(ServerTest, KnowsTheRouteOfARequestWhoseHeaderItRefuses) {
  options.access_log = true;
  options.service.limits.max_body = 1000;
  testing::internal::CaptureStderr();
  start();
  RawClient large(port), ambiguous(port);
  large.send("POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
  const auto reply = large.read();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(json::parse(reply.body)["error"]["code"], "too_large") << reply.body;
  ambiguous.send("POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n");
  EXPECT_EQ(json::parse(ambiguous.read().body)["error"]["code"], "bad_request");
  wait_for_metric(R"(hydramix_requests_total{route="/v1/embeddings",status="413"} 1)");
  wait_for_metric(R"(hydramix_requests_total{route="/v1/embeddings",status="400"} 1)");
  const auto log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find(R"("path":"/v1/embeddings","status":413)"), std::string::npos) << log;
}

int64_t virtual_memory() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST_F(ServerTest, TakesTheMemoryOfABodyAsItArrives) {
  options.service.limits.max_body = 1 << 30;
  start();
  RawClient(port).post("/embed", kEmbed);
  const auto before = virtual_memory();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(port));
    clients.back()->send(kPost + "Content-Length: " + std::to_string(1 << 30) + "\r\n\r\n{");
  }
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(virtual_memory() - before, 1 << 30);
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

TEST_F(ServerTest, SaysThatConnectionsCannotBeAccepted) {
  testing::internal::CaptureStderr();
  start();
  RawClient watcher(port);
  EXPECT_EQ(watcher.get("/health").status, 200);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  rlimit few = files;
  const int first = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  few.rlim_cur = static_cast<rlim_t>(first) + 1;
  std::vector<int> gaps;
  setrlimit(RLIMIT_NOFILE, &few);
  for (int more = 0; (more = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) gaps.push_back(more);
  close(first);
  RawClient waiting(port);  // takes the last
  for (int i = 0; i < 1000; ++i) {
    if (watcher.get("/metrics").body.find("hydramix_accept_errors_total 0\n") == std::string::npos)
      break;
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(watcher.get("/metrics").body.find("hydramix_accept_errors_total 0\n"),
            std::string::npos);
  setrlimit(RLIMIT_NOFILE, &files);
  for (const int gap : gaps) close(gap);
  EXPECT_EQ(waiting.get("/health").status, 200);
  const auto log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("connections cannot be accepted: Too many open files"), std::string::npos)
      << log;
}

TEST_F(ServerTest, IsNotHealthyWhileEveryComputationFails) {
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

TEST_F(ServerTest, LimitsConnections) {
  options.service.limits.max_connections = 3;
  start();
  RawClient a(port), b(port), c(port);
  for (auto* client : {&a, &b, &c}) EXPECT_EQ(client->get("/health").status, 200);
  RawClient d(port);
  EXPECT_EQ(d.read().status, 503);
  a.leave();
  int status = 0;
  for (int i = 0; i < 500 && status != 200; ++i) {
    std::this_thread::sleep_for(10ms);
    RawClient e(port);
    status = e.get("/health").status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(ServerTest, AsksForTheKey) {
  options.service.api_key = "secret";
  start();
  RawClient client(port);
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/info").status, 401);
  EXPECT_EQ(client.get("/info", "Authorization: Bearer secret\r\n").status, 200);
  for (const char* wrong : {"Bearer secre", "Bearer secrets", "Bearer Secret", "secret", "Bearer "})
    EXPECT_EQ(client.get("/info", concat("Authorization: ", wrong, "\r\n")).status, 401) << wrong;
  EXPECT_EQ(client.post("/embed", kEmbed).status, 401);
}

TEST_F(ServerTest, RefusesPagesOfOtherSites) {
  start();
  RawClient client(port);
  EXPECT_EQ(client.get("/info", "Origin: http://evil.example\r\n").status, 403);
  const auto own = client.get("/info", "Origin: http://localhost\r\n");
  EXPECT_EQ(own.status, 200);
  EXPECT_EQ(own.header.find("Access-Control"), std::string::npos);
  RawClient poster(port);
  EXPECT_EQ(poster.post("/embed", kEmbed, "Origin: http://evil.example\r\n").status, 403);
}

// A name that was rebound to this machine's address, with an Origin that agrees.
TEST_F(ServerTest, RefusesRequestsToNamesThatAreNotItsOwn) {
  options.service.host_names = {"Embed.Example.org"};
  start();
  const auto status = [&](const std::string& host) {
    RawClient client(port);
    client.send(
        concat("GET /info HTTP/1.1\r\nHost: ", host, "\r\nOrigin: http://", host, "\r\n\r\n"));
    return client.read().status;
  };
  for (const char* own :
       {"embed.example.org", "EMBED.example.org:8080", "localhost", "localhost:80", "localhost.",
        "localhost.:80", "embed.example.org.", "127.0.0.1:8080", "[::1]:8080", "192.0.2.7"})
    EXPECT_EQ(status(own), 200) << own;
  for (const char* other :
       {"evil.example", "evil.example:8080", "embed.example.org.evil.example",
        "127.0.0.1.evil.example", "localhost.evil.example", "evil.example.", "[evil.example]"})
    EXPECT_EQ(status(other), 403) << other;
}

TEST_F(ServerTest, AllowsPagesOfOneOtherSite) {
  options.service.cors_origin = "https://friend.example";
  start();
  RawClient client(port);
  const auto reply = client.get("/info", "Origin: https://friend.example\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.header.find("Access-Control-Allow-Origin: https://friend.example"),
            std::string::npos);
  client.send(
      "OPTIONS /embed HTTP/1.1\r\nHost: x\r\nOrigin: https://friend.example\r\n"
      "Access-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization,x-stainless-os\r\n\r\n");
  const auto preflight = client.read();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header.find("Content-Length"), std::string::npos);
  EXPECT_NE(preflight.header.find("Access-Control-Allow-Headers: authorization,x-stainless-os\r\n"),
            std::string::npos);
  EXPECT_NE(preflight.header.find("Vary: Origin, Access-Control-Request-Headers\r\n"),
            std::string::npos);
  // Only a preflight asks.
  EXPECT_NE(client.get("/info", "Access-Control-Request-Headers: x-other\r\n")
                .header.find("Access-Control-Allow-Headers: Authorization, Content-Type\r\n"),
            std::string::npos);
}

TEST_F(ServerTest, ReloadsAModelAndKeepsTheOldOneWhereThatFails) {
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

TEST_F(ServerTest, AnswersWhileAModelIsBeingReloaded) {
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

TEST_F(ServerTest, DrainsWithoutLosingARequest) {
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

TEST_F(ServerTest, SaysWhereARequestWasNotAnsweredInTime) {
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

TEST_F(ServerTest, DoesNotCountARequestThatIsStillArriving) {
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
TEST_F(ServerTest, CanBeDestroyedWhileRequestsArriveWaitAndAreComputed) {
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

TEST_F(ServerTest, ShowsRuns) {
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
