// SPDX-License-Identifier: Apache-2.0
// HTTP as the server speaks it: bodies in pieces, pipelining, malformed and ambiguous requests.
#include <nlohmann/json.hpp>

#include <sstream>

#include "running_server.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class HttpRules : public test::RunningServer {};

TEST_F(HttpRules, AnswersManyRequestsOnOneConnection) {
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

TEST_F(HttpRules, AnswersPipelinedRequestsInOrder) {
  start();
  RawClient client(port);
  std::string all;
  for (int i = 0; i < 10; ++i)
    all += sized(R"({"inputs": "w)" + std::to_string(i) + R"(", "normalize": false})");
  client.send(all + "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.read().body, "[[3," + std::to_string(i + 5) + "]]");
  EXPECT_EQ(client.read().body, R"({"status":"ok"})");
}

TEST_F(HttpRules, ReadsBodiesInPieces) {
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

TEST_F(HttpRules, RefusesLargeBodiesBeforeTheyAreRead) {
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

TEST_F(HttpRules, RefusesChunkExtensionsAndTrailersWithoutEnd) {
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

TEST_F(HttpRules, ReadsLargeBodiesAndTheRequestsAfterThem) {
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

TEST_F(HttpRules, CutsSlowRequests) {
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

TEST_F(HttpRules, RefusesAmbiguousAndMalformedRequests) {
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

TEST_F(HttpRules, RefusesEncodedBodies) {
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

TEST_F(HttpRules, ReadsTargetsWithAHost) {
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

TEST_F(HttpRules, ReadsPathsInUtf8Only) {
  start();
  const auto status = [&](const std::string& path) { return RawClient(port).get(path).status; };
  EXPECT_EQ(status("/%C3%A9"), 404);
  EXPECT_EQ(status("/%C3"), 400);
  EXPECT_EQ(status("/runs/%FF/metrics"), 400);
}

TEST_F(HttpRules, SendsNoContinueToOldClients) {
  start();
  RawClient client(port);
  client.send("POST /embed HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(kEmbed.size()) + "\r\n\r\n" + kEmbed);
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(HttpRules, SendsNoLengthWhereThereIsNoBody) {
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

TEST_F(HttpRules, KnowsTheRouteOfARequestWhoseHeaderItRefuses) {
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

}  // namespace
}  // namespace hydramix::serve
