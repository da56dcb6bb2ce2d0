// SPDX-License-Identifier: Apache-2.0
// Both ends of the rendezvous for its tests: services that are not rank 0, and the options of a
// store and of its clients.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "dist/store_client.h"
#include "dist/store_server.h"
#include "support/expect.h"
#include "support/ports.h"

namespace hydramix::test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// On a loaded machine a thread may not run for hundreds of milliseconds: every limit is far above
// what is measured against it.
inline constexpr milliseconds kTimeout(30'000), kImpatient(1000);
inline constexpr double kSoon = 15;  // seconds; less than kTimeout

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline sockaddr_in local_address(int port, const char* host = "127.0.0.1") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = inet_addr(host);
  return address;
}

inline void say(int socket, const std::string& text) {
  static_cast<void>(send(socket, text.data(), text.size(), MSG_NOSIGNAL));
}

inline std::string hear(int socket, std::size_t count) {
  std::string text(count, '\0');
  const ssize_t got = recv(socket, text.data(), count, MSG_WAITALL);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

inline void reset(int socket) {
  const linger now{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

inline std::string noise() {
  std::string text;
  for (uint32_t k = 1; k <= 5000; ++k) text += static_cast<char>(k * 2654435761u >> 13);
  return text;
}

using Behaviour = std::function<void(int socket, const std::atomic<bool>& over)>;

inline void stay_until(const std::atomic<bool>& over) {
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

inline StoreClientOptions client_options(uint16_t port, const std::string& secret = "",
                                         milliseconds timeout = kTimeout) {
  return {"127.0.0.1", port, 1, 2, secret, timeout};
}

inline StoreServerOptions server_options(uint32_t size, const std::string& secret = "") {
  return {"127.0.0.1", static_cast<uint16_t>(free_port()), size, secret, kTimeout};
}

}  // namespace hydramix::test
