// SPDX-License-Identifier: Apache-2.0
// The scan without autograd, for operations that it is a part of. Tensors may be columns of wider
// ones.
#pragma once

#include <functional>

#include "ops/gpu/token_table.h"
#include "ops/scan.h"

namespace hydramix::gpu {

struct ScanCall {
  torch::Tensor x;                  // (n, H, P)
  torch::Tensor dt[2], b[2], c[2];  // (n, H), (n, G, N); undefined: no such direction
  torch::Tensor dt_bias, A;         // (H) float32
  torch::Tensor diagonal;           // (H) float32, or undefined
  torch::Tensor delta;              // (n, H), or undefined
  ScanSettings settings;
  bool gradients = true;  // a backward pass may follow
  std::shared_ptr<const TokenTable> table;
  // Called after each pass on tensor cores has been launched, with its name; for timing.
  std::function<void(const char*)> passed;
};

// Fills y (n, H, P). What is returned belongs to the backward pass.
torch::Tensor scan_forward(const ScanCall& call, const torch::Tensor& y);

// Those to be filled are given; undefined: not wanted.
struct ScanGradients {
  torch::Tensor x, dt[2], b[2], c[2], delta;  // as in the call
  torch::Tensor dt_bias, A, diagonal;         // (H) float32
};
void scan_backward(const ScanCall& call, const torch::Tensor& saved, const torch::Tensor& dy,
                   const ScanGradients& gradients);

}  // namespace hydramix::gpu
