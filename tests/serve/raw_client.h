// SPDX-License-Identifier: Apache-2.0
// A client that sends bytes as they are, for requests that no HTTP library would send.
#pragma once

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <string>

namespace hydramix::test {

struct Reply {
  int status = 0;  // 0: the connection was closed without an answer
  std::string header, body;
};

class RawClient {
 public:
  // receive_buffer: bytes that the kernel keeps for a client that does not read; 0: its default.
  // seconds: how long it waits for an answer.
  explicit RawClient(int port, int receive_buffer = 0, double seconds = 20)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    timeval limit{};
    limit.tv_sec = static_cast<time_t>(seconds);
    limit.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0)
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { leave(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void leave() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Sends no more, but still reads.
  void end_sending() { ::shutdown(socket_, SHUT_WR); }
  // Leaves with a reset in place of a regular end.
  void reset() {
    const linger at_once{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    leave();
  }
  void send(const std::string& bytes) {
    // A server that refuses may have closed already.
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }
  // The next answer, by its Content-Length.
  Reply read() {
    Reply reply;
    std::size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) return reply;
    reply.header = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    reply.status = std::atoi(reply.header.c_str() + 9);
    const auto length = reply.header.find("Content-Length: ");
    const std::size_t size = length == std::string::npos
                                 ? 0
                                 : std::strtoul(reply.header.c_str() + length + 16, nullptr, 10);
    while (buffer_.size() < size)
      if (!more()) break;
    reply.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return reply;
  }
  // Waits for the first bytes of an answer and leaves them unread.
  bool wait_for_answer() {
    char byte;
    return ::recv(socket_, &byte, 1, MSG_PEEK) > 0;
  }
  // Whether the server has closed the connection, and sent nothing more.
  bool is_closed() { return buffer_.empty() && !more(); }

  Reply post(const std::string& path, const std::string& body, const std::string& headers = "") {
    send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return read();
  }
  Reply get(const std::string& path, const std::string& headers = "") {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return read();
  }

 private:
  bool more() {
    char bytes[4096];
    const auto n = ::recv(socket_, bytes, sizeof bytes, 0);
    if (n > 0) buffer_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }

  int socket_;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace hydramix::test
