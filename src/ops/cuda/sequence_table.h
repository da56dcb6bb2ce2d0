// SPDX-License-Identifier: Apache-2.0
// The positions of packed sequences in the form that GPU kernels read. Sequences own their tables:
// every layer of a model and both passes of a step share one.
#pragma once

#include <memory>

#include "hydramix/sequences.h"

struct int2;
namespace hydramix::cuda {
struct ScanLayout;
struct TokenTiles;
}  // namespace hydramix::cuda

namespace hydramix::on_cuda {

class SequenceTable {
 public:
  SequenceTable(const Sequences::State& sequences, torch::Device device);
  // Room for any sequences of `tokens` tokens; fill() may be called again while a graph that reads
  // the table is alive.
  SequenceTable(int64_t tokens, torch::Device device);
  void fill(const std::vector<int64_t>& offsets);

  torch::Device device() const { return bounds_.device(); }
  // For each token the index of its sequence and its position in that, (n) int64. Computed from the
  // table on the device by every call, so that a graph uses the latest fill.
  torch::Tensor index_of_tokens() const;
  torch::Tensor place_of_tokens() const;
  const int2* bounds() const;
  // The length of all sequences if it is the same and stays so; else 0.
  int64_t length() const;
  // `walks`: parts of heads and directions, which run at the same time.
  cuda::ScanLayout layout(int walks) const;
  // The allocator does not reuse the memory before the current stream is done with it.
  void keep_for_current_stream() const;

 private:
  void upload(const cuda::TokenTiles& tiles);

  int64_t tokens_;
  bool refillable_;  // kernels must support any sequences
  std::shared_ptr<const cuda::TokenTiles> tiles_;
  torch::Tensor bounds_;  // (n, 2) int32
  torch::Tensor begins_;  // (tiles + 1) int32
};

// The table of these sequences on a device, made at the first call. There is at least one token.
std::shared_ptr<const SequenceTable> table_of(const Sequences& sequences, torch::Device device);

}  // namespace hydramix::on_cuda
