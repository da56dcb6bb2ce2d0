// SPDX-License-Identifier: Apache-2.0
#include "dist/store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hydramix/error.h"

namespace hydramix {

StorePointer open_store(const LaunchEnvironment& launched, std::chrono::milliseconds timeout,
                        bool host) {
  c10d::TCPStoreOptions options;
  options.port = launched.master_port;
  options.isServer = host;
  options.waitWorkers = false;  // the rendezvous names the missing ranks
  options.timeout = timeout;
  const std::string place = concat(launched.master_address, ":", launched.master_port);
  try {
    return c10::make_intrusive<c10d::PrefixStore>(
        concat("hydramix/", launched.attempt),
        c10::make_intrusive<c10d::TCPStore>(launched.master_address, options));
  } catch (const std::exception& error) {
    const std::string reason = reason_of(error);
    if (host)
      throw Error(concat("rank 0 cannot open the store at ", place, " (MASTER_ADDR:MASTER_PORT): ",
                         reason, ". Is the port taken by another run? Choose another."));
    throw Error(concat("rank ", launched.rank, " cannot reach the store at ", place,
                       " (MASTER_ADDR:MASTER_PORT) within ", timeout.count() / 1000.0,
                       " s: ", reason, ". ", launched.agent_store ? "torchrun" : "Rank 0",
                       " must run there, and the port must be open between the machines."));
  }
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
