// SPDX-License-Identifier: Apache-2.0
// Tells from a socket whether the client still waits, while a request is being answered.
//
// A client that closes its socket and one that only ends its sending (shutdown(SHUT_WR), which
// HTTP/1.1 allows) look the same: both send FIN. Only the first answers further bytes with a reset.
#pragma once

namespace hydramix::serve {

enum class ClientState {
  kSends,  // bytes wait to be read
  kQuiet,
  kHalfClosed,  // it will send nothing more
  kGone,        // the connection is broken: reset, timed out
};
ClientState client_state(int socket);

enum class Probe { kSent, kNotSent, kBroken };
// Sends an interim answer, which clients of HTTP/1.1 skip (RFC 9110, 15.2), so that a client that
// has closed its socket resets the connection. kBroken: no answer can follow.
Probe probe_client(int socket);

enum class ClientEvent { kNone, kGone, kUrgent };
// The reason for which a socket was reported, other than bytes. kUrgent: out-of-band bytes, which
// are reported as long as they are there.
ClientEvent client_event(int socket);

}  // namespace hydramix::serve
