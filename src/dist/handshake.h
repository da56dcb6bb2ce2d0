// SPDX-License-Identifier: Apache-2.0
// How a rank and rank 0's store recognise each other before either reads a length from the other:
//
//   rank    ClientHello   magic, version, size, rank, whether it has a secret, 16 random bytes
//   store   ServerHello   magic, version, size, whether it has a secret, 16 random bytes, proof
//   rank    proof
//   store   admission
//
// All have a fixed size; numbers are little-endian. A proof is the HMAC-SHA-256 of both hellos with
// the secret as the key, so neither end learns the other's secret, and both know that the other has
// it. Without a secret the key is empty.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "dist/connection.h"

namespace hydramix {

constexpr uint32_t kStoreVersion = 1;

using Nonce = std::array<uint8_t, 16>;
Nonce random_nonce();

struct ClientHello {
  uint32_t version = kStoreVersion, size = 0, rank = 0;
  bool has_secret = false;
  Nonce nonce{};  // the same in all connections of a process

  static constexpr std::size_t kBytes = 40;
  std::string bytes() const;
  static ClientHello parse(std::string_view bytes);
};

struct ServerHello {
  uint32_t version = kStoreVersion, size = 0;
  bool has_secret = false;
  Nonce nonce{};

  static constexpr std::size_t kBytes = 36;  // without the proof
  std::string bytes() const;
  static ServerHello parse(std::string_view bytes);
};

// False if `bytes`, the beginning of a hello or more, is no client's (server's) of any version.
bool is_client_hello(std::string_view bytes);
bool is_server_hello(std::string_view bytes);

enum class Author { kClient, kServer };
Sha256 handshake_proof(Author author, const std::string& secret, const ClientHello& client,
                       const ServerHello& server);
bool proves(std::string_view bytes, const Sha256& expected);  // in constant time

enum class Admission : uint32_t { kWelcome, kOtherSecret, kOtherSize, kRankIsThere, kRunHasBegun };
constexpr std::size_t kAdmissionBytes = 4;
std::string bytes_of(Admission admission);

struct StorePlace {
  std::string text;  // "127.0.0.1:29500 (MASTER_ADDR:MASTER_PORT)", for messages
  std::string secret;
};

// The client's side. Throws ConnectionClosed when the other end hangs up before it says anything,
// ConnectionSilent after the deadline; any other Error says why it is not this run's store.
void shake_hands(Connection& connection, const ClientHello& self, const StorePlace& place,
                 Deadline deadline);

}  // namespace hydramix
