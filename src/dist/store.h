// SPDX-License-Identifier: Apache-2.0
// The key-value store through which ranks find each other: our own, hosted by rank 0, or that of
// torchrun's agent, which is c10d's TCPStore. All keys of one start of a run share a prefix.
//
// Reading a missing key of torchrun's store blocks inside it, and after a timeout there LibTorch
// 1.13's connection is out of step. So a key is read only after has() has seen it.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "dist/launch_environment.h"
#include "dist/store_server.h"

namespace hydramix {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// Starts the store of a run; rank 0 does.
std::unique_ptr<StoreServer> host_store(const LaunchEnvironment& launched,
                                        std::chrono::milliseconds timeout);
StorePointer connect_store(const LaunchEnvironment& launched, std::chrono::milliseconds timeout);

void put(c10d::Store& store, const std::string& key, const std::string& value);
bool has(c10d::Store& store, const std::string& key);
std::string read(c10d::Store& store, const std::string& key);  // the key must exist

// The message of a c10d exception, without LibTorch's backtrace and the full stop.
std::string reason_of(const std::exception& error);

}  // namespace hydramix
