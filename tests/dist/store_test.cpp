// SPDX-License-Identifier: Apache-2.0
// The store of rank 0: it serves its ranks while strangers connect, keeps their values, and refuses
// messages that are not its own.
#include <future>

#include "dist/peers.h"

namespace hydramix {
namespace {

using namespace test;  // peers.h is for these tests

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
TEST(Store, ServesARankAmongImpostors) {
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
TEST(Store, OutlivesAWrongLengthAfterUnreadAnswers) {
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

TEST(Store, ARankJoinsOnceAndAgainWhenItIsGone) {
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

TEST(Store, ListensOnlyAtTheAddressGiven) {
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

TEST(Store, KeepsValues) {
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

TEST(Store, AMessageThatIsNotTheStoresIsRefused) {
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

}  // namespace
}  // namespace hydramix
