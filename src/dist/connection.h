// SPDX-License-Identifier: Apache-2.0
// TCP with deadlines: every call ends in time, whatever the other end does.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hydramix/error.h"

namespace hydramix {

using Deadline = std::chrono::steady_clock::time_point;

// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int number() const { return number_; }

 private:
  int number_;
};

// The addresses of a host. Throws an Error when its name cannot be resolved.
std::vector<sockaddr_storage> resolve(const std::string& host, uint16_t port);
std::string described(const sockaddr_storage& address);  // "127.0.0.1:29500", "[::1]:29500"
socklen_t length_of(const sockaddr_storage& address);

// The other end has closed the connection, or the network has.
class ConnectionClosed : public Error {
 public:
  using Error::Error;
};
class ConnectionRefused : public ConnectionClosed {  // nothing listens there
 public:
  using ConnectionClosed::ConnectionClosed;
};
class ConnectionSilent : public Error {  // the deadline has passed
 public:
  using Error::Error;
};

class Connection {
 public:
  // Throws ConnectionRefused when nothing listens there, ConnectionClosed when the other end
  // answers and closes at once, ConnectionSilent after the deadline.
  Connection(const sockaddr_storage& address, Deadline deadline);

  void send(std::string_view bytes, Deadline deadline);
  // At least one byte, at most `limit`.
  std::string receive_some(std::size_t limit, Deadline deadline);
  std::string receive(std::size_t count, Deadline deadline);

 private:
  void wait_for(short events, Deadline deadline) const;

  Descriptor socket_;
};

}  // namespace hydramix
