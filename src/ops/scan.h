// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan on packed sequences, forward and backward: LibTorch's side of
// kernels/cpu/scan.h, where the formula stands, and of kernels/cuda/scan.h.
#pragma once

#include <functional>
#include <limits>

#include "hydramix/sequences.h"

namespace hydramix {

// What one direction reads. Undefined tensors: the scan does not have this direction.
struct ScanDirection {
  torch::Tensor dt;  // (n, H), before softplus
  torch::Tensor b;   // (n, G, N)
  torch::Tensor c;   // (n, G, N)
};

struct ScanSettings {
  int64_t shift = 1;  // 1: strictly off the diagonal, as in Hydra; 0: as in Mamba-2
  // Places of a chunk on the CPU: any value, same result to rounding; 1024 at most are taken.
  int64_t tile = 64;
  double dt_low = 0, dt_high = std::numeric_limits<double>::infinity();
};

// x (n, H, P), dt_bias (H), A (H), delta (n, H) or (H) -> (n, H, P). x, b and c are float32,
// float64 or bfloat16, all alike; the rest is in the arithmetic of that; float64 on the CPU only.
// On the CPU a sequence gives the same bits whatever stands around it and however many threads
// there are; so do all gradients but those of weights, whose sum over sequences depends on which
// there are. On a GPU the same call gives the same bits.
//
// Kept for the backward pass, on the CPU: the inputs, the states at the borders of chunks (2 N /
// tile floats per channel and token) and what the heads share ((tile + 4 N) G + 4 H floats per
// token).
torch::Tensor packed_scan(const torch::Tensor& x, const ScanDirection& forward,
                          const ScanDirection& backward, const torch::Tensor& dt_bias,
                          const torch::Tensor& A, const torch::Tensor& delta,
                          const Sequences& sequences, const ScanSettings& settings);

// The same without checks and autograd. Tensors per token may be columns of wider ones.
struct ScanCall {
  torch::Tensor x;  // (n, H, P)
  ScanDirection direction[2];
  torch::Tensor dt_bias, A;  // (H)
  torch::Tensor diagonal;    // (H), or undefined; on the CPU one of the two is given
  torch::Tensor delta;       // (n, H), or undefined: delta_t x_t is added
  ScanSettings settings;
  Sequences sequences;
  bool gradients = true;  // a backward pass may follow
  // Called after each pass on tensor cores has been launched, with its name; for timing.
  std::function<void(const char*)> passed = {};
};

// Those to be filled are given; undefined: not wanted. On the CPU all but one of diagonal and delta
// are wanted, and delta is contiguous.
struct ScanGradients {
  torch::Tensor x;  // (n, H, P)
  ScanDirection direction[2];
  torch::Tensor delta;                 // (n, H)
  torch::Tensor dt_bias, A, diagonal;  // (H)
};

namespace on_cpu {
// Fills y (n, H, P). Returns what the backward pass needs besides the call.
std::vector<torch::Tensor> scan_forward(const ScanCall& call, const torch::Tensor& y);
void scan_backward(const ScanCall& call, const std::vector<torch::Tensor>& saved,
                   const torch::Tensor& dy, const ScanGradients& gradients);
}  // namespace on_cpu
namespace on_cuda {
std::vector<torch::Tensor> scan_forward(const ScanCall& call, const torch::Tensor& y);
void scan_backward(const ScanCall& call, const std::vector<torch::Tensor>& saved,
                   const torch::Tensor& dy, const ScanGradients& gradients);
}  // namespace on_cuda

}  // namespace hydramix
