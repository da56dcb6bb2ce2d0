// SPDX-License-Identifier: Apache-2.0
#include "dist/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hydramix {
namespace {

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

[[noreturn]] void throw_closed(int code) { throw ConnectionClosed(std::strerror(code)); }

// A service that accepts and resets at once can do so before `connect` has returned.
[[noreturn]] void throw_not_connected(int code) {
  if (code == ECONNRESET) throw_closed(code);
  throw ConnectionRefused(std::strerror(code));
}

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

std::vector<sockaddr_storage> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  HYDRAMIX_CHECK(status == 0, gai_strerror(status));
  std::vector<sockaddr_storage> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    sockaddr_storage address{};
    std::memcpy(&address, a->ai_addr, a->ai_addrlen);
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  HYDRAMIX_CHECK(!addresses.empty(), "it has no IP address");
  return addresses;
}

std::string described(const sockaddr_storage& address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length_of(address), host,
                  sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return address.ss_family == AF_INET6 ? concat("[", host, "]:", port) : concat(host, ":", port);
}

socklen_t length_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

Connection::Connection(const sockaddr_storage& address, Deadline deadline)
    : socket_(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (socket_.number() < 0) throw_not_connected(errno);
  const int yes = 1;
  setsockopt(socket_.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const auto* target = reinterpret_cast<const sockaddr*>(&address);
  if (connect(socket_.number(), target, length_of(address)) != 0) {
    if (errno != EINPROGRESS) throw_not_connected(errno);
    wait_for(POLLOUT, deadline);
    int code = 0;
    socklen_t length = sizeof code;
    getsockopt(socket_.number(), SOL_SOCKET, SO_ERROR, &code, &length);
    if (code != 0) throw_not_connected(code);
  }
  // Where nothing listens, a local port can by chance connect to itself.
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (getsockname(socket_.number(), reinterpret_cast<sockaddr*>(&local), &length) == 0 &&
      described(local) == described(address))
    throw_not_connected(ECONNREFUSED);
}

void Connection::wait_for(short events, Deadline deadline) const {
  pollfd waiting{socket_.number(), events, 0};
  while (true) {
    const int limit = milliseconds_until(deadline);
    const int ready = poll(&waiting, 1, limit);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw_closed(errno);
    if (limit == 0) throw ConnectionSilent("no answer in time");
  }
}

void Connection::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (would_block(errno))
      wait_for(POLLOUT, deadline);
    else
      throw_closed(errno);
  }
}

std::string Connection::receive_some(std::size_t limit, Deadline deadline) {
  std::string bytes(limit, '\0');
  while (true) {
    const ssize_t count = recv(socket_.number(), bytes.data(), bytes.size(), 0);
    if (count == 0) throw ConnectionClosed("connection closed");
    if (count > 0) {
      bytes.resize(static_cast<std::size_t>(count));
      return bytes;
    }
    if (!would_block(errno)) throw_closed(errno);
    wait_for(POLLIN, deadline);
  }
}

std::string Connection::receive(std::size_t count, Deadline deadline) {
  std::string bytes;
  while (bytes.size() < count) bytes += receive_some(count - bytes.size(), deadline);
  return bytes;
}

}  // namespace hydramix
