// SPDX-License-Identifier: Apache-2.0
#include "dist/handshake.h"

#include <sys/random.h>

#include <algorithm>

#include "base/quotes.h"
#include "dist/heartbeat.h"
#include "dist/little_endian.h"

namespace hydramix {
namespace {

constexpr std::string_view kClientMagic = "HYDRAMX>", kServerMagic = "HYDRAMX<";

void append_nonce(std::string& bytes, const Nonce& nonce) {
  bytes.append(nonce.begin(), nonce.end());
}

Nonce nonce_at(std::string_view bytes, std::size_t at) {
  Nonce nonce;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), nonce.size(), nonce.begin());
  return nonce;
}

bool begins_like(std::string_view bytes, std::string_view magic) {
  return bytes.substr(0, magic.size()) == magic.substr(0, bytes.size());
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  HYDRAMIX_CHECK(getrandom(nonce.data(), nonce.size(), 0) == std::ssize(nonce),
                 "the system gives no random bytes");
  return nonce;
}

std::string ClientHello::bytes() const {
  std::string result(kClientMagic);
  for (const uint32_t number : {version, size, rank, uint32_t{has_secret}})
    append_u32(result, number);
  append_nonce(result, nonce);
  return result;
}

ClientHello ClientHello::parse(std::string_view bytes) {
  return {u32_at(bytes, 8), u32_at(bytes, 12), u32_at(bytes, 16), u32_at(bytes, 20) != 0,
          nonce_at(bytes, 24)};
}

std::string ServerHello::bytes() const {
  std::string result(kServerMagic);
  for (const uint32_t number : {version, size, uint32_t{has_secret}}) append_u32(result, number);
  append_nonce(result, nonce);
  return result;
}

ServerHello ServerHello::parse(std::string_view bytes) {
  return {u32_at(bytes, 8), u32_at(bytes, 12), u32_at(bytes, 16) != 0, nonce_at(bytes, 20)};
}

bool is_client_hello(std::string_view bytes) { return begins_like(bytes, kClientMagic); }
bool is_server_hello(std::string_view bytes) { return begins_like(bytes, kServerMagic); }

Sha256 handshake_proof(Author author, const std::string& secret, const ClientHello& client,
                       const ServerHello& server) {
  return hmac_sha256(secret, concat(author == Author::kClient ? "client" : "server", client.bytes(),
                                    server.bytes()));
}

bool proves(std::string_view bytes, const Sha256& expected) {
  uint8_t difference = bytes.size() == expected.size() ? 0 : 1;
  for (std::size_t k = 0; k < std::min(bytes.size(), expected.size()); ++k)
    difference |= static_cast<uint8_t>(static_cast<uint8_t>(bytes[k]) ^ expected[k]);
  return difference == 0;
}

std::string bytes_of(Admission admission) {
  std::string bytes;
  append_u32(bytes, static_cast<uint32_t>(admission));
  return bytes;
}

void shake_hands(Connection& connection, const ClientHello& self, const StorePlace& place,
                 Deadline deadline) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string who = concat("rank ", self.rank);
  std::string heard;
  const auto hear = [&](std::size_t count) {
    while (heard.size() < count) {
      heard += connection.receive_some(count - heard.size(), deadline);
      // The first wrong byte is enough: a service that sends no more must not cost the whole time.
      HYDRAMIX_CHECK(is_server_hello(heard), who, ": the service at ", place.text,
                     " is not rank 0 of a HydraMix run: it sent ", in_quotes(heard),
                     ". Is the port taken by another program? Choose another MASTER_PORT.");
    }
  };
  std::string admission;
  try {
    connection.send(self.bytes(), deadline);
    hear(ServerHello::kBytes);
    const auto server = ServerHello::parse(heard);
    HYDRAMIX_CHECK(server.version == self.version, "rank 0 at ", place.text, " has version ",
                   server.version, " of the rendezvous, ", who, " has version ", self.version,
                   ". Start all ranks with the same hydramix.");
    HYDRAMIX_CHECK(
        server.has_secret == self.has_secret, who,
        self.has_secret ? " has a secret, but rank 0 at " : " has no secret, but rank 0 at ",
        place.text, self.has_secret ? " has none" : " has one",
        ". Set HYDRAMIX_SECRET for all ranks alike.");
    hear(ServerHello::kBytes + Sha256().size());
    const auto proof = handshake_proof(Author::kServer, place.secret, self, server);
    const bool genuine = proves(std::string_view(heard).substr(ServerHello::kBytes), proof);
    const auto own = handshake_proof(Author::kClient, place.secret, self, server);
    connection.send({reinterpret_cast<const char*>(own.data()), own.size()}, deadline);
    HYDRAMIX_CHECK(genuine, who, " and rank 0 at ", place.text,
                   " have different secrets. Set HYDRAMIX_SECRET for all ranks alike.");
    admission = connection.receive(kAdmissionBytes, deadline);
    HYDRAMIX_CHECK(server.size == self.size, who, " belongs to a run of ", self.size,
                   " ranks, but rank 0 at ", place.text, " to one of ", server.size,
                   ". Start all ranks with the same WORLD_SIZE, or choose another MASTER_PORT if "
                   "these are two runs.");
  } catch (const ConnectionSilent&) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    throw ConnectionSilent(concat(
        who, ": the service at ", place.text, " is not rank 0 of a HydraMix run: ",
        heard.empty() ? "it has sent nothing for "
                      : concat("it has sent only ", heard.size(), " bytes in "),
        seconds(waited), ". Is the port taken by another program? Choose another MASTER_PORT."));
  } catch (const ConnectionClosed& error) {
    if (heard.empty()) throw;
    throw Error(concat(who, ": the service at ", place.text, " broke off the handshake after ",
                       heard.size(), " bytes: ", error.what(), ". See the output of rank 0."));
  }
  switch (static_cast<Admission>(u32_at(admission, 0))) {
    case Admission::kWelcome:
      return;
    case Admission::kRankIsThere:
      throw Error(concat(who, ": another process has already joined the run at ", place.text,
                         " as this rank. Give every process its own rank."));
    case Admission::kRunHasBegun:
      throw Error(concat(who, ": all ranks of the run at ", place.text,
                         " are already there. Wait for its end, or choose another MASTER_PORT."));
    default:
      throw Error(concat(who, " is refused by rank 0 at ", place.text, ". See its output."));
  }
}

}  // namespace hydramix
