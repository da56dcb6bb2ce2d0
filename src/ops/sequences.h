// SPDX-License-Identifier: Apache-2.0
// The state that copies of Sequences share.
#pragma once

#include <mutex>

#include "hydramix/sequences.h"

namespace hydramix {

namespace on_cuda {
class SequenceTables;
}

struct Sequences::State {
  std::vector<int64_t> offsets;
  int64_t length = 0;  // of each sequence, where all have the same; else 0

  std::mutex mutex;
  std::shared_ptr<on_cuda::SequenceTables> tables;  // made on first use; guarded by the mutex
};

// Sequences whose table can be filled again with other offsets of as many tokens, while a graph
// that reads it is alive. On the host they stay as they were first.
Sequences refillable_sequences(const std::vector<int64_t>& offsets, torch::Device device);
void refill(const Sequences& sequences, const std::vector<int64_t>& offsets);

// Makes the table for a device now: a graph capture cannot.
void make_table(const Sequences& sequences, torch::Device device);

}  // namespace hydramix
