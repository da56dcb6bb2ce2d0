// SPDX-License-Identifier: Apache-2.0
#include "serve/load.h"

#include "fake_model.h"
#include "serve/server.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

TEST(Load, CountsAnswersAndRefusals) {
  ServerOptions options;
  options.port = 0;
  options.access_log = false;
  options.service.limits.max_concurrent_requests = 2;
  options.service.max_batch_tokens = 3;  // a request at a time
  ModelTable models({{"fake", "folder"}}, [](const ModelPlace&) { return test::fake_model(); });
  std::atomic<int64_t> computed = 0;
  Server server(options, models, [&](auto works) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    computed += static_cast<int64_t>(works.size());
    return test::fake_compute(works);
  });
  server.start();
  server.load();
  LoadOptions load{.port = server.port(), .path = "/embed", .bodies = {R"({"inputs": "w1"})"}};
  load.connections = 8;
  load.threads = 3;
  load.seconds = 0.3;
  const auto overloaded = run_load(load);
  EXPECT_EQ(std::ssize(overloaded.seconds), overloaded.statuses.at(200));
  EXPECT_EQ(overloaded.statuses.at(200), computed);
  EXPECT_GT(overloaded.statuses.at(429), 0);
  EXPECT_EQ(overloaded.statuses.size(), 2);  // nothing but 200 and 429
  EXPECT_EQ(overloaded.lost, 0);
  EXPECT_GE(overloaded.seconds.front(), 0.002);
  EXPECT_LE(overloaded.percentile(0.5), overloaded.percentile(0.99));
  load.connections = 2;
  load.rate = 50;
  const auto steady = run_load(load);
  EXPECT_EQ(steady.statuses.at(200), 15);
  EXPECT_EQ(ask(load, "/health", ""), R"({"status":"ok"})");
  EXPECT_THROW_WITH(ask(load, "/nowhere", ""), Error, "answered 404");
  server.drain();
  EXPECT_TRUE(server.wait());
  EXPECT_THROW_WITH(run_load(load), Error, "cannot connect");
}

TEST(Load, PercentilesAreOfTheSortedTimes) {
  LoadResult result;
  EXPECT_EQ(result.percentile(0.5), 0);
  for (int i = 1; i <= 100; ++i) result.seconds.push_back(i);
  EXPECT_EQ(result.percentile(0.5), 50);
  EXPECT_EQ(result.percentile(0.99), 99);
  EXPECT_EQ(result.percentile(1), 100);
}

}  // namespace
}  // namespace hydramix::serve
