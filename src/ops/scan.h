// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan on packed sequences, forward and backward, on the CPU and on GPUs:
// LibTorch's side of kernels/cpu/scan.h, where the formula stands, and of kernels/cuda/scan.h.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// What one direction reads. Undefined tensors: the scan does not have this direction.
struct ScanDirection {
  torch::Tensor dt;  // (n, H), before softplus
  torch::Tensor b;   // (n, G, N)
  torch::Tensor c;   // (n, G, N)
};

struct ScanSettings {
  int64_t shift = 1;  // 1: strictly off the diagonal, as in Hydra; 0: as in Mamba-2
  int64_t tile =
      64;  // places of a chunk: any value, same result to rounding; 1024 at most are taken
  double dt_low = 0, dt_high = std::numeric_limits<double>::infinity();
};

// x (n, H, P), dt_bias (H), A (H), delta (n, H) or (H) -> (n, H, P). Sequence s is the tokens
// offsets[s] .. offsets[s + 1] - 1. x, b and c are float32, float64 or bfloat16, all alike; the
// rest is in the arithmetic of that; float64 on the CPU only. On the CPU a sequence gives the same
// bits whatever stands around it and however many threads there are; so do all gradients but those
// of weights, whose sum over sequences depends on which there are. On a GPU the same call gives the
// same bits.
//
// Kept for the backward pass, on the CPU: the inputs, the states at the borders of chunks (2 N /
// tile floats per channel and token) and what the heads share ((tile + 4 N) G + 4 H floats per
// token).
torch::Tensor packed_scan(const torch::Tensor& x, const ScanDirection& forward,
                          const ScanDirection& backward, const torch::Tensor& dt_bias,
                          const torch::Tensor& A, const torch::Tensor& delta,
                          const std::vector<int64_t>& offsets, const ScanSettings& settings);

}  // namespace hydramix
