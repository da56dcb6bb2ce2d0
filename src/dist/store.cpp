// SPDX-License-Identifier: Apache-2.0
#include "dist/store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>

#include "dist/heartbeat.h"
#include "dist/store_client.h"
#include "hydramix/error.h"

namespace hydramix {

namespace {

// A TCPStore has no handshake. Torchrun started its own before the ranks.
StorePointer connect_to_agent(const LaunchEnvironment& launched,
                              std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = launched.master_port;
  options.waitWorkers = false;  // the rendezvous names the missing ranks
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(launched.master_address, options);
  } catch (const std::exception& error) {
    throw Error(concat("rank ", launched.rank, " cannot reach the store at ",
                       launched.master_address, ":", launched.master_port,
                       " (MASTER_ADDR:MASTER_PORT) within ", seconds(timeout), ": ",
                       reason_of(error),
                       ". torchrun must run there, and the port must be open between the "
                       "machines."));
  }
}

}  // namespace

std::unique_ptr<StoreServer> host_store(const LaunchEnvironment& launched,
                                        std::chrono::milliseconds timeout) {
  StoreServerOptions options;
  options.address = launched.bind_address.empty() ? launched.master_address : launched.bind_address;
  options.port = launched.master_port;
  options.size = static_cast<uint32_t>(launched.size);
  options.secret = launched.secret;
  options.handshake_limit = std::min(options.handshake_limit, timeout);
  try {
    return std::make_unique<StoreServer>(options);
  } catch (const Error& error) {
    throw Error(
        concat("rank 0 cannot open the store at ", options.address, ":", options.port,
               launched.bind_address.empty() ? " (MASTER_ADDR:MASTER_PORT): "
                                             : " (HYDRAMIX_BIND:MASTER_PORT): ",
               error.what(),
               ". If another run has the port, choose another MASTER_PORT. MASTER_ADDR must "
               "be rank 0's machine; HYDRAMIX_BIND may give the address to listen at."));
  }
}

StorePointer connect_store(const LaunchEnvironment& launched, std::chrono::milliseconds timeout) {
  StorePointer store;
  if (launched.agent_store) {
    store = connect_to_agent(launched, timeout);
  } else {
    StoreClientOptions options;
    // Rank 0 reaches its own store where it listens.
    options.address = launched.rank == 0 && !launched.bind_address.empty()
                          ? launched.bind_address
                          : launched.master_address;
    options.port = launched.master_port;
    options.rank = static_cast<uint32_t>(launched.rank);
    options.size = static_cast<uint32_t>(launched.size);
    options.secret = launched.secret;
    options.timeout = timeout;
    store = c10::make_intrusive<StoreClient>(options);
  }
  return c10::make_intrusive<c10d::PrefixStore>(concat("hydramix/", launched.attempt), store);
}

void put(c10d::Store& store, const std::string& key, const std::string& value) {
  store.set(key, std::vector<uint8_t>(value.begin(), value.end()));
}

bool has(c10d::Store& store, const std::string& key) { return store.check({key}); }

std::string read(c10d::Store& store, const std::string& key) {
  const auto bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

std::string reason_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  return text;
}

}  // namespace hydramix
