// SPDX-License-Identifier: Apache-2.0
// A rank's connection to the store that rank 0 hosts, with the interface of c10d's stores. Any
// thread may use it, one request at a time. Waiting for a key means asking for it again, so a
// waiting thread does not keep the others out.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <mutex>
#include <string>
#include <vector>

#include "dist/handshake.h"
#include "dist/store_message.h"

namespace hydramix {

struct StoreClientOptions {
  std::string address;  // of rank 0
  uint16_t port = 0;
  uint32_t rank = 0, size = 1;
  std::string secret;
  std::chrono::milliseconds timeout{0};  // for the connection, and for each request
};

class StoreClient : public c10d::Store {
 public:
  // Tries until the timeout, because rank 0 may start later. An Error says who is there instead.
  explicit StoreClient(const StoreClientOptions& options);

  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;  // waits for the key
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  // New versions of LibTorch ask for this; earlier ones do not have it, so it overrides nothing.
  c10::intrusive_ptr<c10d::Store> clone() {
    return c10::intrusive_ptr<c10d::Store>::reclaim_copy(this);
  }

 private:
  StoreMessage ask(const StoreMessage& request);

  const std::string place_;  // "127.0.0.1:29500 (MASTER_ADDR:MASTER_PORT)"
  std::mutex mutex_;
  Connection connection_;
  bool out_of_step_ = false;  // a request has no answer yet
};

}  // namespace hydramix
