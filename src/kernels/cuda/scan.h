// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan on packed tokens for NVIDIA GPUs, both directions at once, forward and
// backward. With a_t = A dt_t and sequence by sequence (shift = 1, as in Hydra),
//
//   y_i = delta_i x_i + sum_{j<i} c_{i-1} . b_j  exp(a_{j+1} + ... + a_{i-1}) dt_j x_j
//                     + sum_{j>i} c'_{i+1} . b'_j exp(a'_{i+1} + ... + a'_{j-1}) dt'_j x_j
//
// and with shift = 0 the same with c_i, j <= i and a_{j+1} + ... + a_i.
//
// Tokens are cut into tiles of at most kTile, which may hold several sequences. The first token of
// a sequence has a decay of zero (2^kReset) before it, and its c row is empty. So nothing passes
// from one sequence to the next, neither values that are not finite nor rounding errors. Inside a
// tile the product is that of one dense matrix: its lower triangle is of one direction and its
// upper triangle of the other. Tokens of other tiles contribute through a state (P x N) at the
// border of the tile. There are no states if no sequence is cut.
//
// A is at most zero. Every sum has a fixed order: the same call gives the same bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/params.h"

namespace hydramix::cuda {

constexpr int kTile = 128;

// Where sequences and tiles are. The arrays are on the device.
struct ScanLayout {
  const int2* bounds;  // (n) of a token's sequence: its first token, and one past its last
  const int* begins;   // (tiles + 1) tile k is the tokens begins[k] .. begins[k + 1] - 1; the last
                       // tiles may be empty
  int64_t n = 0;       // fewer than kMostTokens (limits.h)
  int tiles = 0;
  int segment = 1;       // tiles that one block walks through to compute states
  bool states = false;   // some sequence is in more than one tile
  bool carries = false;  // ... and in more than one segment

  constexpr int segments() const { return (tiles + segment - 1) / segment; }
};

// S is float or __nv_bfloat16; the kernels for tensor cores take bfloat16. dt and delta are float
// or bfloat16.
using kernels::ScanShape;
using kernels::StridedRows;
template <typename S>
using ScanInputs = kernels::ScanInputs<S, float, void>;
template <typename S>
using ScanGradients = kernels::ScanGradients<S, float, void>;
template <typename S>
using ScanForward = kernels::ScanForward<S, float, void>;
template <typename S>
using ScanBackward = kernels::ScanBackward<S, float, void>;

// Memory of a call, aligned to 16 bytes.
struct ScanMemory {
  void* saved;    // what the forward pass saves for the backward pass: decays, and states if any
  void* scratch;  // of the pass alone
};

// Called on the launching thread after each pass of a call has been launched: for timing the passes
// one by one.
struct PassObserver {
  void (*launched)(void* context, const char* pass) = nullptr;
  void* context = nullptr;

  void operator()(const char* pass) const {
    if (launched != nullptr) launched(context, pass);
  }
};

// Whether the kernels for tensor cores support these sizes: P is a multiple of 32, N is 16, 32, 64
// or 128, and a block may have enough shared memory for a forward pass or, with `gradients`, also
// for a backward pass (always so on Hopper). The limit is that of the current device unless given.
bool scan_fits(const ScanShape& shape, bool gradients, int shared_bytes);
bool scan_fits(const ScanShape& shape, bool gradients);
// Lowers the limit of every device to this: for tests.
void limit_shared_memory(int bytes);

// Bytes of ScanMemory.
std::size_t scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout);

// All pointers are aligned to 16 bytes, as are the rows of x, b, c, y and their gradients. The
// gradient of x must be wanted.
cudaError_t scan_forward(const ScanForward<__nv_bfloat16>& p, const ScanLayout& layout,
                         const ScanMemory& memory, cudaStream_t stream,
                         const PassObserver& passed = {});
cudaError_t scan_backward(const ScanBackward<__nv_bfloat16>& p, const ScanLayout& layout,
                          const ScanMemory& memory, cudaStream_t stream,
                          const PassObserver& passed = {});

}  // namespace hydramix::cuda
