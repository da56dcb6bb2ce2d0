// SPDX-License-Identifier: Apache-2.0
// Who may ask: keys, names of hosts, pages of other sites.
#include "running_server.h"
#include "serve/page_files.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;

class ServerAccess : public test::RunningServer {};

TEST_F(ServerAccess, ServesThePageUnderAStrictPolicy) {
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

TEST_F(ServerAccess, AsksForTheKey) {
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

TEST_F(ServerAccess, RefusesPagesOfOtherSites) {
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
TEST_F(ServerAccess, RefusesRequestsToNamesThatAreNotItsOwn) {
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

TEST_F(ServerAccess, AllowsPagesOfOneOtherSite) {
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

}  // namespace
}  // namespace hydramix::serve
