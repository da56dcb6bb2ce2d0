// SPDX-License-Identifier: Apache-2.0
// The key-value store of a run, which rank 0 hosts in a thread of its own. It listens only at the
// address given, serves only connections that pass the handshake (handshake.h), and drops any other
// in time and with bounded memory, whatever it sends.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dist/handshake.h"
#include "dist/store_message.h"

namespace hydramix {

struct StoreServerOptions {
  std::string address;  // a name or a number
  uint16_t port = 0;
  uint32_t size = 1;  // ranks
  std::string secret;
  std::chrono::milliseconds handshake_limit{5000};
};

class StoreServer {
 public:
  // Throws an Error when it cannot listen there.
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  uint16_t port() const { return options_.port; }
  // All ranks have connected. A further process gets an error that says it comes too late.
  void begin_run() { begun_ = true; }
  // A rank of another version or of a run of another size has connected: this run cannot begin.
  std::optional<std::string> mismatch() const;
  // The connections that were refused, for a message about missing ranks; empty if none was.
  std::string refused() const;

 private:
  struct Peer;

  void listen();
  void serve();
  void accept_from(int listener);
  void drop_late_peers();
  void forget_closed_peers();
  // These return false when the connection is to be closed. What a peer sends can make all but the
  // first throw an Error.
  bool attend(Peer& peer, short events);
  bool read_from(Peer& peer);
  bool write_to(Peer& peer);
  bool answer_hello(Peer& peer);
  bool check_proof(Peer& peer);
  bool answer_requests(Peer& peer);
  StoreMessage answer(const StoreMessage& request);
  void refuse(const Peer& peer, const std::string& why);
  void set_mismatch(const std::string& why);

  const StoreServerOptions options_;
  std::vector<Descriptor> listeners_;
  Descriptor wake_reader_, wake_writer_;  // a pipe that ends the thread
  std::vector<Peer> peers_;
  std::unordered_map<std::string, std::string> values_;
  std::map<uint32_t, Nonce> processes_;  // by rank
  std::atomic<bool> begun_ = false;

  mutable std::mutex mutex_;  // of the next three
  std::optional<std::string> mismatch_;
  std::vector<std::string> refused_;
  int64_t refusals_ = 0;

  std::thread thread_;
};

}  // namespace hydramix
