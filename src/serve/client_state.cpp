// SPDX-License-Identifier: Apache-2.0
#include "serve/client_state.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>

namespace hydramix::serve {
namespace {

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ClientState client_state(int socket) {
  char byte = 0;
  const auto count = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count > 0) return ClientState::kSends;
  if (count == 0) return ClientState::kHalfClosed;
  return would_wait(errno) ? ClientState::kQuiet : ClientState::kGone;
}

Probe probe_client(int socket) {
  // Python's http.client skips 100, but takes 102 for the answer.
  static constexpr std::string_view kProbe = "HTTP/1.1 100 Continue\r\n\r\n";
  const auto sent = send(socket, kProbe.data(), kProbe.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(kProbe.size())) return Probe::kSent;
  return sent < 0 && would_wait(errno) ? Probe::kNotSent : Probe::kBroken;
}

ClientEvent client_event(int socket) {
  pollfd state{socket, POLLPRI, 0};
  if (poll(&state, 1, 0) <= 0) return ClientEvent::kNone;
  if ((state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return ClientEvent::kGone;
  return (state.revents & POLLPRI) != 0 ? ClientEvent::kUrgent : ClientEvent::kNone;
}

}  // namespace hydramix::serve
