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
  int64_t length = 0;  // of every sequence if all are equally long, else 0

  std::mutex mutex;
  std::shared_ptr<on_cuda::SequenceTables> tables;  // created on first use; guarded by the mutex
};

// Sequences with a device table that refill() can overwrite with other offsets of the same number
// of tokens, while a CUDA graph reads it. The offsets on the host do not change.
Sequences refillable_sequences(const std::vector<int64_t>& offsets, torch::Device device);
void refill(const Sequences& sequences, const std::vector<int64_t>& offsets);

// Creates the table for a device now, because a graph capture cannot.
void make_table(const Sequences& sequences, torch::Device device);

namespace on_cuda {
torch::Tensor index_of_tokens(const Sequences& sequences, torch::Device device);
torch::Tensor place_of_tokens(const Sequences& sequences, torch::Device device);
void make_table(const Sequences& sequences, torch::Device device);
void make_refillable_table(const Sequences& sequences, torch::Device device);
void refill_table(const Sequences& sequences, const std::vector<int64_t>& offsets);
}  // namespace on_cuda

}  // namespace hydramix
