// SPDX-License-Identifier: Apache-2.0
// The rendezvous against everything that may answer at MASTER_ADDR:MASTER_PORT, and of ranks that
// do not belong together: each end says in time who is there, and neither crashes, hangs or takes
// memory.
#include <future>

#include "dist/c10d_communicator.h"
#include "dist/membership.h"
#include "dist/peers.h"
#include "dist/process_group.h"

namespace hydramix {
namespace {

using namespace test;  // peers.h is for these tests

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
