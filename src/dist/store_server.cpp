// SPDX-License-Identifier: Apache-2.0
#include "dist/store_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/quotes.h"
#include "base/spelling.h"
#include "dist/heartbeat.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;

// Connections in the handshake at the same time, besides one of each rank.
constexpr std::size_t kMostStrangers = 64;
constexpr std::size_t kShownRefusals = 4;    // in a message
constexpr std::size_t kReadBytes = 1 << 16;  // at once

// Unsigned, so that adding a peer's number cannot overflow.
uint64_t to_number(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return static_cast<uint64_t>(number);
}

}  // namespace

// A connection and how far its handshake is.
struct StoreServer::Peer {
  // kLeaving: the connection is closed when the answer is sent.
  enum class Stage { kHello, kProof, kMember, kLeaving };

  Descriptor socket;
  std::string name;  // its address
  Deadline deadline;
  Stage stage = Stage::kHello;
  ClientHello hello;
  ServerHello reply;
  std::string in, out;

  bool in_handshake() const { return stage != Stage::kMember; }
};

StoreServer::StoreServer(StoreServerOptions options) : options_(std::move(options)) {
  listen();
  int ends[2];
  HYDRAMIX_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0,
                 "a pipe cannot be made: ", std::strerror(errno));
  wake_reader_ = Descriptor(ends[0]);
  wake_writer_ = Descriptor(ends[1]);
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  const char byte = 0;
  while (write(wake_writer_.number(), &byte, 1) < 0 && errno == EINTR) {
  }
  thread_.join();
}

// A name may have several addresses ("localhost" has ::1 and 127.0.0.1). Those that this machine
// lacks are left out.
void StoreServer::listen() {
  std::string reason;
  for (const auto& address : resolve(options_.address, options_.port)) {
    Descriptor listener(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address.ss_family == AF_INET6)
      setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(listener.number(), reinterpret_cast<const sockaddr*>(&address), length_of(address)) ==
            0 &&
        ::listen(listener.number(), SOMAXCONN) == 0) {
      listeners_.push_back(std::move(listener));
      continue;
    }
    const int code = errno;
    reason = code == EADDRNOTAVAIL ? concat(described(address), " is no address of this machine")
                                   : std::string(std::strerror(code));
    HYDRAMIX_CHECK(code != EADDRINUSE, reason);
  }
  HYDRAMIX_CHECK(!listeners_.empty(), reason);
}

void StoreServer::serve() {
  std::vector<pollfd> waiting;
  while (true) {
    waiting.assign({{wake_reader_.number(), POLLIN, 0}});
    for (const auto& listener : listeners_) waiting.push_back({listener.number(), POLLIN, 0});
    const std::size_t first_peer = waiting.size();
    auto next = Clock::time_point::max();
    for (const auto& peer : peers_) {
      // Read no further requests from a peer until it has read its answers, so that pending
      // answers stay bounded.
      const short events = peer.out.empty() ? POLLIN : POLLOUT;
      waiting.push_back({peer.socket.number(), events, 0});
      if (peer.in_handshake()) next = std::min(next, peer.deadline);
    }
    int limit = -1;
    if (next != Clock::time_point::max())
      limit = static_cast<int>(std::max<int64_t>(
          0, std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count()));
    if (poll(waiting.data(), waiting.size(), limit) < 0 && errno != EINTR) return;
    if (waiting[0].revents != 0) return;
    for (std::size_t k = first_peer; k < waiting.size(); ++k) {
      Peer& peer = peers_[k - first_peer];
      if (waiting[k].revents == 0) continue;
      if (!attend(peer, waiting[k].revents)) peer.socket = Descriptor();
    }
    drop_late_peers();
    forget_closed_peers();
    for (std::size_t k = 1; k < first_peer; ++k)
      if (waiting[k].revents != 0) accept_from(waiting[k].fd);
  }
}

// Before the run begins, a rank that has disconnected may be started again.
void StoreServer::forget_closed_peers() {
  std::vector<uint32_t> gone;
  for (const Peer& peer : peers_)
    if (peer.socket.number() < 0 && !peer.in_handshake()) gone.push_back(peer.hello.rank);
  std::erase_if(peers_, [](const Peer& peer) { return peer.socket.number() < 0; });
  for (const uint32_t rank : begun_ ? std::vector<uint32_t>() : gone) {
    const bool there = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return !peer.in_handshake() && peer.hello.rank == rank;
    });
    if (!there) processes_.erase(rank);
  }
}

void StoreServer::accept_from(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  Descriptor socket(accept4(listener, reinterpret_cast<sockaddr*>(&address), &length,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.number() < 0) {
    // Out of descriptors: do not spin until one is free.
    if (errno == EMFILE || errno == ENFILE)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  const int yes = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const auto handshakes = std::count_if(peers_.begin(), peers_.end(),
                                        [](const Peer& peer) { return peer.in_handshake(); });
  if (static_cast<std::size_t>(handshakes) >= kMostStrangers + options_.size) {
    const auto oldest = std::find_if(peers_.begin(), peers_.end(),
                                     [](const Peer& peer) { return peer.in_handshake(); });
    refuse(*oldest, "gave way to other connections before its handshake was complete");
    peers_.erase(oldest);
  }
  Peer& peer = peers_.emplace_back();
  peer.socket = std::move(socket);
  peer.name = described(address);
  peer.deadline = Clock::now() + options_.handshake_limit;
}

void StoreServer::drop_late_peers() {
  const auto now = Clock::now();
  for (Peer& peer : peers_) {
    if (peer.socket.number() < 0 || !peer.in_handshake() || now < peer.deadline) continue;
    if (peer.stage != Peer::Stage::kLeaving)
      refuse(peer, concat(peer.in.empty() && peer.stage == Peer::Stage::kHello
                              ? std::string("sent nothing")
                              : concat("sent only ", peer.in.size(), " bytes of its handshake"),
                          " in ", seconds(options_.handshake_limit)));
    peer.socket = Descriptor();
  }
}

bool StoreServer::attend(Peer& peer, short events) {
  try {
    return (events & POLLOUT) != 0 ? write_to(peer) : read_from(peer);
  } catch (const Error& error) {
    refuse(peer, concat("sent ", error.what()));
    return false;
  }
}

bool StoreServer::read_from(Peer& peer) {
  char buffer[kReadBytes];
  const ssize_t count = recv(peer.socket.number(), buffer, sizeof buffer, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) {
    if (peer.stage == Peer::Stage::kHello || peer.stage == Peer::Stage::kProof)
      refuse(peer,
             concat("closed the connection after ", peer.in.size(), " bytes of its handshake"));
    return false;
  }
  if (peer.stage == Peer::Stage::kLeaving) return true;
  peer.in.append(buffer, static_cast<std::size_t>(count));
  if (peer.stage == Peer::Stage::kHello && !answer_hello(peer)) return false;
  if (peer.stage == Peer::Stage::kProof && !check_proof(peer)) return false;
  return peer.stage != Peer::Stage::kMember || answer_requests(peer);
}

bool StoreServer::write_to(Peer& peer) {
  const ssize_t count = send(peer.socket.number(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  peer.out.erase(0, static_cast<std::size_t>(count));
  if (!peer.out.empty()) return true;
  if (peer.stage == Peer::Stage::kMember) return answer_requests(peer);
  return peer.stage != Peer::Stage::kLeaving;
}

bool StoreServer::answer_hello(Peer& peer) {
  if (!is_client_hello(peer.in)) {
    refuse(peer, concat("is no rank: it sent ", in_quotes(clipped(peer.in, 40))));
    return false;
  }
  if (peer.in.size() < ClientHello::kBytes) return true;
  peer.hello = ClientHello::parse(peer.in);
  peer.in.erase(0, ClientHello::kBytes);
  peer.reply = {kStoreVersion, options_.size, !options_.secret.empty(), random_nonce()};
  peer.out += peer.reply.bytes();
  const auto proof = handshake_proof(Author::kServer, options_.secret, peer.hello, peer.reply);
  peer.out.append(proof.begin(), proof.end());
  peer.stage = Peer::Stage::kLeaving;
  const std::string who = concat("says it is rank ", peer.hello.rank);
  if (peer.hello.version != kStoreVersion) {
    const std::string why =
        concat(who, " with version ", peer.hello.version, " of the rendezvous; this is version ",
               kStoreVersion, ". Start all ranks with the same hydramix");
    refuse(peer, why);
    // With a secret, a stranger must not be able to end the run.
    if (options_.secret.empty()) set_mismatch(concat(peer.name, " ", why));
  } else if (peer.hello.has_secret != peer.reply.has_secret) {
    refuse(peer, concat(who,
                        peer.hello.has_secret ? " and has a secret; rank 0 has none"
                                              : " and has no secret; rank 0 has one",
                        ". Set HYDRAMIX_SECRET for all ranks alike"));
  } else {
    peer.stage = Peer::Stage::kProof;
  }
  return write_to(peer);
}

bool StoreServer::check_proof(Peer& peer) {
  const std::size_t size = Sha256().size();
  if (peer.in.size() < size) return true;
  const auto proof = handshake_proof(Author::kClient, options_.secret, peer.hello, peer.reply);
  const bool genuine = proves(std::string_view(peer.in).substr(0, size), proof);
  peer.in.erase(0, size);
  const std::string who = concat("says it is rank ", peer.hello.rank);
  Admission admission = Admission::kWelcome;
  if (!genuine) {
    admission = Admission::kOtherSecret;
    refuse(peer, concat(who, " but has another secret. Set HYDRAMIX_SECRET for all ranks alike"));
  } else if (peer.hello.size != options_.size || peer.hello.rank >= options_.size) {
    admission = Admission::kOtherSize;
    const std::string why = concat(
        who, " of a run of ", peer.hello.size, " ranks; rank 0 belongs to one of ", options_.size,
        ". Start all ranks with the same WORLD_SIZE, or choose another MASTER_PORT if these are "
        "two runs");
    refuse(peer, why);
    set_mismatch(concat(peer.name, " ", why));
  } else {
    const auto known = processes_.find(peer.hello.rank);
    const bool same = known != processes_.end() && known->second == peer.hello.nonce;
    if (known != processes_.end() && !same) {
      admission = begun_ ? Admission::kRunHasBegun : Admission::kRankIsThere;
      refuse(peer, concat(who, ", as another process already does"));
    } else {
      processes_[peer.hello.rank] = peer.hello.nonce;
    }
  }
  peer.stage = admission == Admission::kWelcome ? Peer::Stage::kMember : Peer::Stage::kLeaving;
  peer.out += bytes_of(admission);
  return write_to(peer);
}

bool StoreServer::answer_requests(Peer& peer) {
  // One at a time: the next is answered when this answer is on its way.
  while (peer.out.empty() && peer.in.size() >= kLengthBytes) {
    const std::size_t length = message_length(peer.in);
    if (peer.in.size() < kLengthBytes + length) break;
    const std::string body = peer.in.substr(kLengthBytes, length);
    peer.in.erase(0, kLengthBytes + length);
    peer.out = answer(StoreMessage::parse(body)).bytes();
    const ssize_t count =
        send(peer.socket.number(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) peer.out.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

StoreMessage StoreServer::answer(const StoreMessage& request) {
  const auto& texts = request.texts;
  const auto expect = [&](std::size_t count) {
    HYDRAMIX_CHECK(texts.size() == count, "a request with ", texts.size(), " texts, not ", count);
  };
  switch (request.code) {
    case Code::kSet:
      expect(2);
      values_[texts[0]] = texts[1];
      return {Code::kYes, {}};
    case Code::kGet: {
      expect(1);
      const auto found = values_.find(texts[0]);
      if (found == values_.end()) return {Code::kNo, {}};
      return {Code::kYes, {found->second}};
    }
    case Code::kAdd: {
      expect(2);
      std::string& value = values_[texts[0]];
      value = std::to_string(static_cast<int64_t>(to_number(value) + to_number(texts[1])));
      return {Code::kYes, {value}};
    }
    case Code::kCheck: {
      const bool all = std::all_of(texts.begin(), texts.end(),
                                   [&](const auto& key) { return values_.contains(key); });
      return {all ? Code::kYes : Code::kNo, {}};
    }
    case Code::kCompareSet: {
      expect(3);
      // A missing key is set only when nothing is expected, as in c10d's stores.
      const auto found = values_.find(texts[0]);
      if (found == values_.end()) {
        if (!texts[1].empty()) return {Code::kYes, {texts[1]}};
        values_[texts[0]] = texts[2];
        return {Code::kYes, {texts[2]}};
      }
      if (found->second == texts[1]) found->second = texts[2];
      return {Code::kYes, {found->second}};
    }
    case Code::kDelete:
      expect(1);
      return {values_.erase(texts[0]) > 0 ? Code::kYes : Code::kNo, {}};
    case Code::kCount:
      expect(0);
      return {Code::kYes, {std::to_string(values_.size())}};
    default:
      throw Error("an answer where a request was expected");
  }
}

void StoreServer::refuse(const Peer& peer, const std::string& why) {
  const std::lock_guard lock(mutex_);
  ++refusals_;
  const std::string text = concat(peer.name.substr(0, peer.name.rfind(':')), " ", why);
  if (refused_.size() < kShownRefusals && std::ranges::find(refused_, text) == refused_.end())
    refused_.push_back(text);
}

void StoreServer::set_mismatch(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!begun_ && !mismatch_) mismatch_ = why;
}

std::optional<std::string> StoreServer::mismatch() const {
  const std::lock_guard lock(mutex_);
  return mismatch_;
}

std::string StoreServer::refused() const {
  const std::lock_guard lock(mutex_);
  if (refusals_ == 0) return "";
  return concat(refusals_, refusals_ == 1 ? " connection was" : " connections were",
                " refused: ", join(refused_, "; "));
}

}  // namespace hydramix
