// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan on packed sequences, forward and backward: the LibTorch interface of
// kernels/cpu/scan.h, which has the formula, and of kernels/cuda/scan.h.
#pragma once

#include <functional>
#include <limits>

#include "hydramix/sequences.h"

namespace hydramix {

// The inputs of one direction; undefined if the scan does not have this direction.
struct ScanDirection {
  torch::Tensor dt;  // (n, H), before softplus
  torch::Tensor b;   // (n, G, N)
  torch::Tensor c;   // (n, G, N)
};

struct ScanSettings {
  int64_t shift = 1;  // 1: strictly off the diagonal, as in Hydra; 0: as in Mamba-2
  // Chunk length on the CPU, at most 1024 in effect, or 256 for retention. Changes the result only
  // by rounding.
  int64_t tile = 64;
  double dt_low = 0, dt_high = std::numeric_limits<double>::infinity();
  // dt, dt_bias, A or delta come from weights. On the CPU a call without gradients then has the
  // bits of one with them. Otherwise it may take the kernel of retention, which has no gradients
  // for these.
  bool learned_decays = false;
};

// x (n, H, P), dt_bias (H), A (H), delta (n, H) or (H) -> (n, H, P). x, b and c have one dtype:
// float32, float64 (CPU only) or bfloat16. The other tensors have the dtype that this one is
// computed in. On the CPU the bits of a sequence's output do not depend on the other sequences or
// on the number of threads. The same holds for gradients, except those of the weights, which are
// sums over all sequences. On a GPU the same call gives the same bits.
//
// On the CPU the forward pass saves the inputs, the states at chunk boundaries (2 N / tile floats
// per channel and token), dt and its sums (6 H floats per token) and, if there is one group of
// heads, or several tasks for each, the values that a group shares ((tile + 4 N) G floats per
// token). Retention, a causal scan with shift 0, dt_low = dt_high, own b and c for every head and
// decays that need no gradients, saves the inputs and, of sequences of several chunks, the states
// (N / tile floats per channel and token).
torch::Tensor packed_scan(const torch::Tensor& x, const ScanDirection& forward,
                          const ScanDirection& backward, const torch::Tensor& dt_bias,
                          const torch::Tensor& A, const torch::Tensor& delta,
                          const Sequences& sequences, const ScanSettings& settings);

// The same without checks and autograd. Tensors per token may be columns of wider ones.
struct ScanCall {
  torch::Tensor x;  // (n, H, P)
  ScanDirection direction[2];
  torch::Tensor dt_bias, A;  // (H)
  torch::Tensor diagonal;    // (H), or undefined; on the CPU one of diagonal and delta is set
  torch::Tensor delta;       // (n, H), or undefined: delta_t x_t is added
  ScanSettings settings;
  Sequences sequences;
  bool gradients = true;  // a backward pass may follow
  // ... which computes the gradients of dt, dt_bias, A, diagonal and delta; otherwise only those of
  // x, b and c.
  bool decay_gradients = true;
  // For timing: called with the name of each tensor-core pass after its launch.
  std::function<void(const char*)> passed = {};
};

// The defined tensors are filled. Those of x, b and c are defined, and the others are not without
// decay_gradients. delta is contiguous.
struct ScanGradients {
  torch::Tensor x;  // (n, H, P)
  ScanDirection direction[2];
  torch::Tensor delta;                 // (n, H)
  torch::Tensor dt_bias, A, diagonal;  // (H)
};

namespace on_cpu {
// Fills y (n, H, P). Returns the tensors that the backward pass needs besides the call.
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
