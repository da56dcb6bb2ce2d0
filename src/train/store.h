// SPDX-License-Identifier: Apache-2.0
// The key-value store through which ranks find each other: c10d's, over TCP, hosted by rank 0 or
// by torchrun. Keys of one start of a run share a prefix.
//
// A read of a key that is not there yet would wait inside the store, and giving up such a wait
// leaves LibTorch 1.13's connection out of step; so a key is read only once has() has seen it.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "train/launch_environment.h"

namespace hydramix {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// Hosts the store where this rank is to (`host`), and connects to it.
StorePointer open_store(const LaunchEnvironment& launched, std::chrono::milliseconds timeout,
                        bool host);

void put(c10d::Store& store, const std::string& key, const std::string& value);
bool has(c10d::Store& store, const std::string& key);
std::string read(c10d::Store& store, const std::string& key);  // of a key that is there

// What a c10d exception says, without LibTorch's backtrace and the full stop.
std::string reason_of(const std::exception& error);

}  // namespace hydramix
