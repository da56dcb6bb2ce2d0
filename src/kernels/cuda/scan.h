// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan on packed tokens for NVIDIA GPUs, both directions at once, forward and
// backward. With a_t = A dt_t and sequence by sequence (shift = 1, as in Hydra),
//
//   y_i = delta_i x_i + sum_{j<i} c_{i-1} . b_j  exp(a_{j+1} + ... + a_{i-1}) dt_j x_j
//                     + sum_{j>i} c'_{i+1} . b'_j exp(a'_{i+1} + ... + a'_{j-1}) dt'_j x_j
//
// and with shift = 0 the same with c_i, j <= i and a_{j+1} + ... + a_i.
//
// Tokens are cut into tiles of at most kTile, which may hold several sequences: a sequence's first
// token has a decay of zero (2^kReset) in front of it, and its c row is empty, so that nothing
// passes from one sequence to the next, not even what is not finite, nor its rounding. Inside a
// tile the product is that of one dense matrix whose lower triangle is of one direction and whose
// upper triangle of the other; what comes from further away comes through a state (P x N) at the
// tile's border. Where no sequence is cut there are no states.
//
// A is at most zero. Every sum has a fixed order: the same call gives the same bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace hydramix::cuda {

constexpr int kTile = 128;

// Where sequences and tiles are; on the device, but for the numbers.
struct ScanLayout {
  const int2* bounds;  // (n) of a token's sequence: its first token, and one past its last
  const int* begins;   // (tiles + 1) tile k is the tokens begins[k] .. begins[k + 1] - 1; the last
                       // ones may be empty
  int64_t n = 0;       // fewer than kMostTokens (limits.h)
  int tiles = 0;
  int segment = 1;       // tiles that one block walks through to make states
  bool states = false;   // some sequence is in more than one tile
  bool carries = false;  // ... and in more than one segment

  constexpr int segments() const { return (tiles + segment - 1) / segment; }
};

struct ScanShape {
  int H, P, G, N;
  int shift;
  bool on[2];  // forward, backward
  float dt_low, dt_high;
  bool dt_is_float;     // else bfloat16, as everything per token is
  bool delta_is_float;  // likewise
};

// Rows are tokens; *_row is the distance of rows, in values.
struct ScanDirectionInputs {
  const void* dt = nullptr;                        // (n, H) before softplus
  const __nv_bfloat16 *b = nullptr, *c = nullptr;  // (n, G, N)
  int64_t dt_row = 0, b_row = 0, c_row = 0;
};

struct ScanInputs {
  const __nv_bfloat16* x = nullptr;  // (n, H, P)
  int64_t x_row = 0;
  ScanDirectionInputs direction[2];
  const float *dt_bias = nullptr, *A = nullptr;  // (H)
  const float* diagonal = nullptr;               // (H) added to delta; null: nothing
  const void* delta = nullptr;                   // (n, H); null: zero
  int64_t delta_row = 0;
};

// Gradients; null: not wanted, but x always is.
struct ScanDirectionGradients {
  void* dt = nullptr;  // (n, H) in the type of dt
  __nv_bfloat16 *b = nullptr, *c = nullptr;
  int64_t dt_row = 0, b_row = 0, c_row = 0;
};

struct ScanGradients {
  __nv_bfloat16* x = nullptr;  // (n, H, P)
  int64_t x_row = 0;
  ScanDirectionGradients direction[2];
  float *dt_bias = nullptr, *A = nullptr, *diagonal = nullptr;  // (H)
  void* delta = nullptr;                                        // (n, H), in the type of delta
  int64_t delta_row = 0;
};

// Called after each pass of a call has been launched, on the launching thread: for timing the
// passes one by one.
struct PassObserver {
  void (*launched)(void* context, const char* pass) = nullptr;
  void* context = nullptr;

  void operator()(const char* pass) const {
    if (launched != nullptr) launched(context, pass);
  }
};

// Whether the kernels for tensor cores take these sizes: P a multiple of 32, N 16, 32, 64 or 128,
// and a block may have shared memory enough for what a forward pass needs or, with `gradients`,
// also a backward pass (Hopper always has). Of the current device where it is not said how much.
bool scan_fits(const ScanShape& shape, bool gradients, int shared_bytes);
bool scan_fits(const ScanShape& shape, bool gradients);
// From now on as on a device whose blocks have no more shared memory than this: for tests.
void limit_shared_memory(int bytes);

// Bytes of what a backward pass wants to see again: decays, and states where there are any.
std::size_t scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout);
// Bytes of scratch memory of a call.
std::size_t scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout);

// All pointers aligned to 16 bytes, as are the rows of x, b, c, y and their gradients.
cudaError_t scan_forward(const ScanShape& shape, const ScanLayout& layout, const ScanInputs& in,
                         void* saved, void* scratch, __nv_bfloat16* y, int64_t y_row,
                         cudaStream_t stream, const PassObserver& passed = {});
cudaError_t scan_backward(const ScanShape& shape, const ScanLayout& layout, const ScanInputs& in,
                          const void* saved, void* scratch, const __nv_bfloat16* dy, int64_t dy_row,
                          const ScanGradients& out, cudaStream_t stream,
                          const PassObserver& passed = {});

}  // namespace hydramix::cuda
