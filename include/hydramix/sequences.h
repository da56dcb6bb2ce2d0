// SPDX-License-Identifier: Apache-2.0
// Packed sequences, the argument of every operation on tokens: sequence s is the tokens
// offsets()[s] .. offsets()[s + 1] - 1. Copies share one state, which also owns the tables that GPU
// kernels read. A table is created on first use and lives as long as the sequences.
#pragma once

#include <memory>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

class Sequences {
 public:
  // Offsets increase from 0 to the number of tokens; operations check that.
  Sequences(std::vector<int64_t> offsets);  // NOLINT(google-explicit-constructor)
  // `count` sequences of the same length; none if the length is 0.
  static Sequences uniform(int64_t count, int64_t length);

  const std::vector<int64_t>& offsets() const;
  int64_t tokens() const { return offsets().back(); }
  int64_t count() const { return static_cast<int64_t>(offsets().size()) - 1; }

  // For each token the index of its sequence, and its position in that sequence: (n) int64.
  torch::Tensor index_of_tokens(torch::Device device) const;
  torch::Tensor place_of_tokens(torch::Device device) const;

  struct State;  // ops/sequences.h
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hydramix
