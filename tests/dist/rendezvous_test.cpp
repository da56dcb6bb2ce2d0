// SPDX-License-Identifier: Apache-2.0
// The rendezvous against everything that may answer, or knock, at MASTER_ADDR:MASTER_PORT: each
// end says in time who is there, and neither crashes, hangs or takes memory.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "dist/c10d_communicator.h"
#include "dist/membership.h"
#include "dist/process_group.h"
#include "dist/store_client.h"
#include "dist/store_server.h"
#include "support/expect.h"
#include "support/ports.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// On a loaded machine a thread may not run for hundreds of milliseconds: every limit is far above
// what is measured against it.
constexpr milliseconds kTimeout(30'000), kImpatient(1000);
constexpr double kSoon = 15;  // seconds; less than kTimeout

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

sockaddr_in local_address(int port, const char* host = "127.0.0.1") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = inet_addr(host);
  return address;
}

void say(int socket, const std::string& text) {
  static_cast<void>(send(socket, text.data(), text.size(), MSG_NOSIGNAL));
}

std::string hear(int socket, std::size_t count) {
  std::string text(count, '\0');
  const ssize_t got = recv(socket, text.data(), count, MSG_WAITALL);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

void reset(int socket) {
  const linger now{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

std::string noise() {
  std::string text;
  for (uint32_t k = 1; k <= 5000; ++k) text += static_cast<char>(k * 2654435761u >> 13);
  return text;
}

using Behaviour = std::function<void(int socket, const std::atomic<bool>& over)>;

void stay_until(const std::atomic<bool>& over) {
  while (!over) std::this_thread::sleep_for(milliseconds(5));
}

// A service that is not rank 0.
class Impostor {
 public:
  explicit Impostor(Behaviour behaviour) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    auto address = local_address(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, behaviour] {
      std::vector<std::jthread> guests;
      while (true) {
        const int guest = accept(listener_, nullptr, nullptr);
        if (guest < 0) return;
        guests.emplace_back([this, behaviour, guest] {
          behaviour(guest, over_);
          close(guest);
        });
      }
    });
  }
  ~Impostor() {
    over_ = true;
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  uint16_t port() const { return port_; }

 private:
  int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

StoreClientOptions client_options(uint16_t port, const std::string& secret = "",
                                  milliseconds timeout = kTimeout) {
  return {"127.0.0.1", port, 1, 2, secret, timeout};
}

StoreServerOptions server_options(uint32_t size, const std::string& secret = "") {
  return {"127.0.0.1", static_cast<uint16_t>(test::free_port()), size, secret, kTimeout};
}

std::string refusal(uint16_t port) {
  try {
    StoreClient client(client_options(port, "", kImpatient));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

void expect_refused_service(const Behaviour& behaviour, const std::string& message) {
  const Impostor impostor(behaviour);
  const auto begin = Clock::now();
  const std::string text = refusal(impostor.port());
  EXPECT_LT(seconds_since(begin), kSoon) << text;
  EXPECT_NE(
      text.find(concat("rank 1: the service at 127.0.0.1:", impostor.port(),
                       " (MASTER_ADDR:MASTER_PORT) is not rank 0 of a HydraMix run: ", message)),
      std::string::npos)
      << text;
}

TEST(Rendezvous, ARankRecognisesASilentService) {
  expect_refused_service([](int, const auto& over) { stay_until(over); },
                         "it has sent nothing for ");
}

TEST(Rendezvous, ARankRecognisesAWebServer) {
  expect_refused_service([](int guest, const auto&) { say(guest, "HTTP/1.1 400 Bad Request\r\n"); },
                         "it sent \"HTTP/1.1 400 Bad Request\\r\\n\"");
}

TEST(Rendezvous, ARankRecognisesAServiceThatResetsTheConnection) {
  expect_refused_service([](int guest, const auto&) { reset(guest); },
                         "it closes the connection without a word");
}

TEST(Rendezvous, ARankRecognisesZeros) {
  expect_refused_service([](int guest, const auto&) { say(guest, std::string(100'000, '\0')); },
                         "it sent \"\\u0000");
}

TEST(Rendezvous, ARankRecognisesNoise) {
  expect_refused_service([](int guest, const auto&) { say(guest, noise()); }, "it sent \"");
}

TEST(Rendezvous, ARankRecognisesASlowService) {
  expect_refused_service(
      [](int guest, const auto& over) {
        const std::string hello = ServerHello{}.bytes();
        for (std::size_t k = 0; k < hello.size() && !over; ++k) {
          say(guest, hello.substr(k, 1));
          std::this_thread::sleep_for(milliseconds(100));
        }
      },
      "it has sent only ");
}

TEST(Rendezvous, ARankRecognisesAServiceThatNeverAnswersAndNeverCloses) {
  expect_refused_service(
      [](int guest, const auto& over) {
        shutdown(guest, SHUT_WR);
        stay_until(over);
      },
      "it closes the connection without a word");
}

// This one knows the handshake, and then announces four gigabytes.
TEST(Rendezvous, ARankDoesNotBelieveAHugeLength) {
  const Impostor impostor([](int guest, const auto& over) {
    const auto client = ClientHello::parse(hear(guest, ClientHello::kBytes));
    const ServerHello self{kStoreVersion, client.size, false, random_nonce()};
    const auto proof = handshake_proof(Author::kServer, "", client, self);
    say(guest, self.bytes() + std::string(proof.begin(), proof.end()));
    hear(guest, proof.size());
    say(guest, bytes_of(Admission::kWelcome));
    hear(guest, kLengthBytes);
    say(guest, "\xFF\xFF\xFF\xFF" + std::string(1000, 'x'));
    stay_until(over);
  });
  StoreClient client(client_options(impostor.port()));
  EXPECT_THROW_WITH(client.check({"key"}), Error,
                    "sent a message of 4294967295 bytes, where at most 1048576 are sent");
}

TEST(Rendezvous, ARankSaysThatNothingIsThere) {
  const auto begin = Clock::now();
  const std::string text = refusal(static_cast<uint16_t>(test::free_port()));
  EXPECT_LT(seconds_since(begin), kSoon);
  EXPECT_NE(text.find("(MASTER_ADDR:MASTER_PORT) within 1 s: Connection refused. Rank 0 must run"),
            std::string::npos)
      << text;
}

TEST(Rendezvous, ARankSaysThatMasterAddrNamesNoMachine) {
  auto options = client_options(29500);
  options.address = std::string(100, 'x');  // too long for a name: no resolver is asked
  EXPECT_THROW_WITH(StoreClient{options}, Error,
                    concat("rank 1 cannot find the store at ", options.address, ":29500 (MASTER"));
}

TEST(Rendezvous, BothEndsNameTheSizesThatDiffer) {
  const StoreServer server(server_options(4));
  const auto port = server.port();
  EXPECT_THROW_WITH(StoreClient(client_options(port)), Error,
                    "rank 1 belongs to a run of 2 ranks, but rank 0 at 127.0.0.1");
  ASSERT_TRUE(server.mismatch());
  EXPECT_NE(server.mismatch()->find("rank 1 of a run of 2 ranks; rank 0 belongs to one of 4"),
            std::string::npos)
      << *server.mismatch();
}

TEST(Rendezvous, BothEndsNameTheSecretThatDiffersAndTheRunGoesOn) {
  const StoreServer secret(server_options(2, "swordfish")), open(server_options(2));
  EXPECT_THROW_WITH(StoreClient(client_options(secret.port(), "tuna")), Error,
                    "have different secrets. Set HYDRAMIX_SECRET for all ranks alike");
  EXPECT_THROW_WITH(StoreClient(client_options(secret.port())), Error,
                    "rank 1 has no secret, but rank 0");
  EXPECT_THROW_WITH(StoreClient(client_options(open.port(), "tuna")), Error,
                    "rank 1 has a secret, but rank 0");
  StoreClient friendly(client_options(secret.port(), "swordfish"));
  EXPECT_EQ(friendly.add("count", 2), 2);
  EXPECT_FALSE(secret.mismatch());
  EXPECT_NE(secret.refused().find("2 connections were refused"), std::string::npos);
  EXPECT_NE(secret.refused().find("says it is rank 1 but has another secret"), std::string::npos)
      << secret.refused();
  EXPECT_NE(open.refused().find("has a secret; rank 0 has none"), std::string::npos);
}

TEST(Rendezvous, AServerWithTheWrongSecretIsRefused) {
  const Impostor impostor([](int guest, const auto& over) {
    const auto client = ClientHello::parse(hear(guest, ClientHello::kBytes));
    const ServerHello self{kStoreVersion, client.size, true, random_nonce()};
    say(guest, self.bytes() + std::string(32, 'p') + bytes_of(Admission::kWelcome));
    stay_until(over);
  });
  EXPECT_THROW_WITH(StoreClient(client_options(impostor.port(), "swordfish")), Error,
                    "have different secrets");
}

TEST(Rendezvous, BothEndsNameTheVersionsThatDiffer) {
  const Impostor impostor([](int guest, const auto& over) {
    say(guest, ServerHello{.version = 7}.bytes());
    stay_until(over);
  });
  EXPECT_THROW_WITH(StoreClient(client_options(impostor.port())), Error,
                    "has version 7 of the rendezvous, rank 1 has version 1");
}

// Whether the other end closes the connection, whatever it sends before.
bool hangs_up(int socket) {
  const timeval limit{kTimeout.count() / 1000, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char bytes[1024];
  while (true) {
    const ssize_t count = recv(socket, bytes, sizeof bytes, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    if (count < 0) return false;
  }
}

// Connections of the nine kinds come to rank 0, and stay open. A rank is served all the same.
TEST(Rendezvous, TheStoreServesARankAmongImpostors) {
  auto options = server_options(2);
  options.handshake_limit = milliseconds(1500);
  StoreServer server(options);
  std::vector<int> sockets;
  const auto knock = [&](const std::string& text) {
    const int guest = sockets.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
    const auto address = local_address(server.port());
    EXPECT_EQ(connect(guest, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    if (!text.empty()) say(guest, text);
    return guest;
  };
  const std::string hello = ClientHello{.size = 2, .rank = 1}.bytes();
  knock("");                                   // silent
  knock("GET / HTTP/1.1\r\nHost: store\r\n");  // a browser
  reset(knock("HYD"));                         // resets
  close(sockets.back());
  sockets.pop_back();
  knock(std::string(100'000, '\0'));                 // zeros
  knock(noise());                                    // noise
  knock("HYDRAM");                                   // slow: the rest never comes
  shutdown(knock(hello), SHUT_WR);                   // half-open
  knock(ClientHello{.size = 9, .rank = 8}.bytes());  // of another run, without a proof
  const int huge = knock(hello);                     // a handshake, then four gigabytes
  const auto reply = ServerHello::parse(hear(huge, ServerHello::kBytes));
  hear(huge, 32);
  const auto proof = handshake_proof(Author::kClient, "", ClientHello::parse(hello), reply);
  say(huge, std::string(proof.begin(), proof.end()) + "\xFF\xFF\xFF\xFF" + std::string(5000, 'x'));
  EXPECT_EQ(hear(huge, kAdmissionBytes), bytes_of(Admission::kWelcome));
  EXPECT_EQ(hear(huge, 1), "") << "the store must hang up";
  for (int more = 0; more < 100; ++more) knock("");

  StoreClientOptions rank0 = client_options(server.port());
  rank0.rank = 0;
  StoreClient client(rank0);
  client.set("key", std::vector<uint8_t>{1, 2, 3});
  EXPECT_EQ(client.get("key"), (std::vector<uint8_t>{1, 2, 3}));
  for (const int guest : sockets) {
    EXPECT_TRUE(hangs_up(guest)) << "a stranger is still connected";
    close(guest);
  }
  EXPECT_TRUE(client.check({"key"}));
  const std::string refused = server.refused();
  EXPECT_NE(refused.find("127.0.0.1 is no rank: it sent \"GET / HTTP/1.1\\r\\nHost"),
            std::string::npos)
      << refused;
  EXPECT_FALSE(server.mismatch());
}

// A rank that does not read its answers, and then sends a wrong length, loses its connection. The
// store serves the others.
TEST(Rendezvous, TheStoreOutlivesAWrongLengthAfterUnreadAnswers) {
  const StoreServer server(server_options(2));
  const auto deadline = Clock::now() + kTimeout;
  Connection rank(resolve("127.0.0.1", server.port()).at(0), deadline);
  shake_hands(rank, ClientHello{.size = 2, .rank = 1, .nonce = random_nonce()}, {"the store", ""},
              deadline);
  // Together the answers are more than the buffers of a connection hold.
  constexpr std::size_t kAnswers = 64, kValueBytes = 1 << 19;
  std::string requests = StoreMessage{Code::kSet, {"key", std::string(kValueBytes, 'x')}}.bytes();
  for (std::size_t k = 0; k < kAnswers; ++k) requests += StoreMessage{Code::kGet, {"key"}}.bytes();
  rank.send(requests + "\xFF\xFF\xFF\xFF", deadline);
  std::size_t received = 0;
  EXPECT_THROW_WITH(while (true) received += rank.receive_some(1 << 16, deadline).size(),
                    ConnectionClosed, "connection closed");
  EXPECT_GT(received, kAnswers * kValueBytes);
  auto rank0 = client_options(server.port());
  rank0.rank = 0;
  EXPECT_EQ(StoreClient(rank0).getNumKeys(), 1);
  EXPECT_NE(server.refused().find("sent a message of 4294967295 bytes"), std::string::npos)
      << server.refused();
}

// A handshake as another process makes it: with other random bytes.
std::string other_process_joins(uint16_t port) {
  const auto deadline = Clock::now() + kTimeout;
  Connection connection(resolve("127.0.0.1", port).at(0), deadline);
  try {
    const ClientHello hello{.size = 2, .rank = 1, .nonce = random_nonce()};
    shake_hands(connection, hello, {"the store", ""}, deadline);
  } catch (const Error& error) {
    return error.what();
  }
  return "joined";
}

TEST(Rendezvous, ARankJoinsOnceAndAgainWhenItIsGone) {
  StoreServer server(server_options(2));
  {
    StoreClient client(client_options(server.port()));
    EXPECT_NE(other_process_joins(server.port()).find("another process has already joined"),
              std::string::npos);
  }
  EXPECT_EQ(other_process_joins(server.port()), "joined");
  StoreClient client(client_options(server.port()));
  server.begin_run();
  EXPECT_NE(other_process_joins(server.port()).find("all ranks of the run at the store are"),
            std::string::npos);
}

TEST(Rendezvous, TheStoreListensOnlyAtTheAddressGiven) {
  const StoreServer server(server_options(2));
  const auto connects = [&](const char* host) {
    const int guest = socket(AF_INET, SOCK_STREAM, 0);
    const auto address = local_address(server.port(), host);
    const bool there =
        connect(guest, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(guest);
    return there;
  };
  EXPECT_TRUE(connects("127.0.0.1"));
  EXPECT_FALSE(connects("127.0.0.2"));
  EXPECT_THROW_WITH(StoreServer({"192.0.2.1", 29500, 2, "", kTimeout}), Error,
                    "192.0.2.1:29500 is no address of this machine");
  EXPECT_THROW_WITH(StoreServer({"127.0.0.1", server.port(), 2, "", kTimeout}), Error,
                    "Address already in use");
}

TEST(Rendezvous, TheStoreKeepsValues) {
  const StoreServer server(server_options(2));
  StoreClient one(client_options(server.port())), other(client_options(server.port()));
  const std::vector<uint8_t> a{0, 255, 10}, b{7};
  EXPECT_FALSE(one.check({"x"}));
  one.set("x", a);
  EXPECT_EQ(other.get("x"), a);
  EXPECT_EQ(other.add("n", 5), 5);
  EXPECT_EQ(one.add("n", -7), -2);
  EXPECT_EQ(one.compareSet("x", b, b), a) << "another value is expected";
  EXPECT_EQ(one.compareSet("x", a, b), b);
  EXPECT_EQ(one.compareSet("new", {}, b), b);
  EXPECT_EQ(one.getNumKeys(), 3);
  EXPECT_TRUE(one.deleteKey("new"));
  EXPECT_FALSE(one.deleteKey("new"));
  EXPECT_FALSE(one.check({"x", "new"}));
  EXPECT_THROW_WITH(one.set("long", std::vector<uint8_t>(kLongestMessage)), Error, "is too long");
  EXPECT_EQ(one.get("x"), b) << "the connection is still in step";
  EXPECT_THROW_WITH(one.wait({"never"}, milliseconds(30)), Error, "has no never after 0.03 s");
  auto later = std::async(std::launch::async, [&] { return one.get("later"); });
  std::this_thread::sleep_for(milliseconds(30));
  other.set("later", a);
  EXPECT_EQ(later.get(), a);
}

TEST(Rendezvous, AMessageThatIsNotTheStoresIsRefused) {
  EXPECT_THROW_WITH(StoreMessage::parse(""), Error, "not the store's");
  EXPECT_THROW_WITH(StoreMessage::parse("\x50"), Error, "not the store's");
  EXPECT_THROW_WITH(StoreMessage::parse(std::string("\0\1\0", 3)), Error, "not the store's");
  EXPECT_THROW_WITH(StoreMessage::parse(std::string("\0\xFF\xFF\xFF\xFF", 5) + "key"), Error,
                    "not the store's");
  const StoreMessage message{Code::kSet, {"key", std::string("\0\n", 2), ""}};
  const std::string bytes = message.bytes();
  EXPECT_EQ(message_length(bytes), bytes.size() - kLengthBytes);
  EXPECT_EQ(StoreMessage::parse(bytes.substr(kLengthBytes)).texts, message.texts);
}

// Two ranks in one process: what each end of a failed rendezvous says.
struct Ends {
  std::string first, second;
};

LaunchEnvironment launched_as(int64_t rank, int64_t size, int port) {
  LaunchEnvironment launched;
  launched.rank = rank;
  launched.size = size;
  launched.group = true;
  launched.launcher = "torchrun";
  launched.master_address = "127.0.0.1";
  launched.master_port = static_cast<uint16_t>(port);
  return launched;
}

std::string message_of(const LaunchEnvironment& launched, milliseconds timeout) {
  try {
    Membership membership(launched, timeout);
    membership.leave(timeout);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

Ends meet(const LaunchEnvironment& one, const LaunchEnvironment& other, milliseconds timeout) {
  auto first = std::async(std::launch::async, message_of, one, timeout);
  auto second = std::async(std::launch::async, message_of, other, timeout);
  return {first.get(), second.get()};
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "it is: " << text;
}

TEST(Rendezvous, RanksOfDifferentSizesEndAtOnce) {
  const int port = test::free_port();
  const auto begin = Clock::now();
  const Ends ends = meet(launched_as(0, 2, port), launched_as(1, 4, port), kTimeout);
  EXPECT_LT(seconds_since(begin), kSoon) << "before the time limit";
  expect_contains(ends.first,
                  "says it is rank 1 of a run of 4 ranks; rank 0 belongs to one of 2. "
                  "Start all ranks with the same WORLD_SIZE");
  expect_contains(ends.second, "rank 1 belongs to a run of 4 ranks, but rank 0 at 127.0.0.1");
}

TEST(Rendezvous, RanksWithOneSecretMeetAndOthersAreNamed) {
  const int port = test::free_port();
  auto one = launched_as(0, 2, port), other = launched_as(1, 2, port);
  one.secret = other.secret = "swordfish";
  const Ends friends = meet(one, other, kTimeout);
  EXPECT_EQ(friends.first + friends.second, "");
  other.secret = "tuna";
  const Ends strangers = meet(one, other, kImpatient);
  expect_contains(strangers.first,
                  "rank 1 of 2 did not start within 1 s (1 connection was "
                  "refused: 127.0.0.1 says it is rank 1 but has another secret");
  expect_contains(strangers.second, "have different secrets");
}

// Rank 0 ends after the rendezvous, while rank 1 connects to it through the store.
TEST(Rendezvous, ARankThatConnectsBlamesRankZeroForTheLostStore) {
  try {
    check_gloo_available();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const int port = test::free_port();
  auto second = std::async(std::launch::async, [&]() -> std::string {
    try {
      make_c10d_communicator(launched_as(1, 2, port), {.timeout_s = 30}, torch::kCPU);
    } catch (const Error& error) {
      return error.what();
    }
    return "connected";
  });
  {
    const Membership first(launched_as(0, 2, port), kTimeout);
    const auto beats = [&] {  // once rank 1 has left the rendezvous
      return Heartbeat::parse(hydramix::read(*first.store(), key_of("heartbeat", 1))).count > 0;
    };
    for (const auto limit = Clock::now() + kTimeout; !beats() && Clock::now() < limit;)
      std::this_thread::sleep_for(milliseconds(5));
  }
  expect_contains(second.get(),
                  concat(":pid ", getpid(), ") died: connection closed by the store"));
}

TEST(Rendezvous, RankZeroSaysWhoKnockedInsteadOfTheMissingRank) {
  const int port = test::free_port();
  auto first = std::async(std::launch::async, message_of, launched_as(0, 2, port), kImpatient);
  int guest = -1;
  const auto address = local_address(port);
  for (int attempt = 0; attempt < 200; ++attempt) {
    guest = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(guest, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) break;
    close(guest);
    std::this_thread::sleep_for(milliseconds(5));
  }
  say(guest, "SSH-2.0-OpenSSH_9.2\r\n");
  expect_contains(first.get(),
                  "rank 1 of 2 did not start within 1 s (1 connection was refused: "
                  "127.0.0.1 is no rank: it sent \"SSH-2.0-OpenSSH_9.2\\r\\n\")");
  close(guest);
}

}  // namespace
}  // namespace hydramix
