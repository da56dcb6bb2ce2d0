// SPDX-License-Identifier: Apache-2.0
// The most that the server takes at once: requests, connections, memory, unread answers.
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "running_server.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class ServerLimits : public test::RunningServer {};

TEST_F(ServerLimits, ReadsSmallBodiesOnlyWhereNothingIsComputed) {
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

TEST_F(ServerLimits, SlowBodiesLeavePlacesToOthers) {
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

TEST_F(ServerLimits, AnswersTooManyRequestsAtOnce) {
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
TEST_F(ServerLimits, KeepsThePlaceOfARequestWhoseAnswerIsNotRead) {
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

TEST_F(ServerLimits, BoundsTheBytesOfAnswersThatAreNotRead) {
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

TEST_F(ServerLimits, CutsAnswersThatAreNotReadAndCountsThem) {
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

int64_t virtual_memory() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST_F(ServerLimits, TakesTheMemoryOfABodyAsItArrives) {
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

TEST_F(ServerLimits, SaysThatConnectionsCannotBeAccepted) {
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

TEST_F(ServerLimits, LimitsConnections) {
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

}  // namespace
}  // namespace hydramix::serve
