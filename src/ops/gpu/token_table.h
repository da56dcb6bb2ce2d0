// SPDX-License-Identifier: Apache-2.0
// Where packed sequences lie, as kernels on a GPU read it: made once for a layout and kept, since
// every layer of a model asks for the same.
#pragma once

#include <memory>

#include "ops/gpu/gpu.h"

struct int2;
namespace hydramix::cuda {
struct ScanLayout;
struct TokenTiles;
}  // namespace hydramix::cuda

namespace hydramix::gpu {

class TokenTable {
 public:
  // Sequences from offsets[s] to offsets[s + 1].
  TokenTable(const std::vector<int64_t>& offsets, torch::Device device);
  // A place for the sequences of any layout of `tokens` tokens; put() fills it, also while a graph
  // that reads it is alive.
  TokenTable(int64_t tokens, torch::Device device);
  void put(const std::vector<int64_t>& offsets);

  int64_t tokens() const { return tokens_; }
  // Computed on the device whenever they are asked for, so that a graph asks again: for each token
  // the index of its sequence and its place in that, (n) int64.
  torch::Tensor sequences() const;
  torch::Tensor places() const;
  const int2* bounds() const;
  // Its memory is not given to others before the current stream has done what it was given so far,
  // though it was made on another.
  void keep_for_current_stream() const;
  // `walks`: parts of heads and directions, which share a GPU.
  cuda::ScanLayout layout(int walks) const;

 private:
  void upload(const cuda::TokenTiles& tiles);

  int64_t tokens_;
  bool any_;  // of any layout: kernels have to expect the worst
  std::shared_ptr<const cuda::TokenTiles> tiles_;
  torch::Tensor bounds_;  // (n, 2) int32
  torch::Tensor begins_;  // (tiles + 1) int32
};

// The table of these sequences: the one that a TableGuard put in place, or one that is made now or
// was made before.
std::shared_ptr<const TokenTable> token_table(const std::vector<int64_t>& offsets,
                                              torch::Device device);

// For this thread and as long as it lives, `table` answers for every layout of as many tokens.
class TableGuard {
 public:
  explicit TableGuard(std::shared_ptr<const TokenTable> table);
  ~TableGuard();
  TableGuard(const TableGuard&) = delete;
  TableGuard& operator=(const TableGuard&) = delete;

 private:
  std::shared_ptr<const TokenTable> before_;
};

}  // namespace hydramix::gpu
