// SPDX-License-Identifier: Apache-2.0
// How norms divide rows among threads. A line is a number of warps that hold a row in registers, N
// values per thread. A block has several lines, which do not wait for one another. Every line walks
// rows, so that weights, and sums for their gradients, stay in registers.
#pragma once

#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/reference_gpu.h"

namespace hydramix::cuda {

// Blocks of a backward pass; each writes one row of partial sums.
constexpr int kPartialRows = 2 * kReferenceProcessors;
constexpr int kMaxLines = 4, kMaxWarps = 16;  // of a block, of a line

// The most threads of a block, and so of a line, with that many values each.
constexpr int max_threads(int values) { return values == 16 ? 512 : 384; }

// kLines: the most lines a block may have. Forward passes use one, because barriers of several
// lines limit the blocks per multiprocessor.
template <int kLines>
class Line {
 public:
  // Two sums of two values: a line may write one while a slow warp still reads the other.
  using Slots = float[kLines][2][2][kMaxWarps];

  __device__ explicit Line(Slots& slots) : slots_(slots[index()]) {}

  __device__ static int index() { return kLines == 1 ? 0 : static_cast<int>(threadIdx.y); }
  __device__ static int64_t first_row() {
    return static_cast<int64_t>(blockIdx.x) * (kLines == 1 ? 1 : blockDim.y) + index();
  }
  __device__ static int64_t row_step() {
    return static_cast<int64_t>(gridDim.x) * (kLines == 1 ? 1 : blockDim.y);
  }

  // Sums over the line, the same bits in every thread.
  template <int N>
  __device__ __forceinline__ void sum(float (&v)[N]) {
    static_assert(N <= 2, "no slots for more");
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = warp_sum(v[i]);
    if (blockDim.x == 32) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float(&slots)[2][kMaxWarps] = slots_[odd_];
    odd_ ^= 1;
    if (lane == 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) slots[i][warp] = v[i];
    }
    wait();
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = warp_sum(lane < warps ? slots[i][lane] : 0.0f);
  }

 private:
  // For the threads of the line. The numbers are constants; otherwise the compiler reserves all
  // barriers.
  __device__ __forceinline__ static void wait() {
    static_assert(kLines == 1 || kLines == 4, "one barrier a line, and 0 for the block");
    if (kLines == 1)
      __syncthreads();
    else if (index() == 0)
      asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory");
    else if (index() == 1)
      asm volatile("bar.sync 2, %0;" ::"r"(blockDim.x) : "memory");
    else if (index() == 2)
      asm volatile("bar.sync 3, %0;" ::"r"(blockDim.x) : "memory");
    else
      asm volatile("bar.sync 4, %0;" ::"r"(blockDim.x) : "memory");
  }

  float (&slots_)[2][2][kMaxWarps];
  int odd_ = 0;
};

// V values in their storage type: values loaded ahead take fewer registers than floats.
template <int V, typename S>
struct alignas(V * sizeof(S)) Piece {
  uint32_t words[V * sizeof(S) / 4];

  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (sizeof(S) == 4)
      return __uint_as_float(words[i]);
    else
      return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
  }
  // Makes the compiler recompute what it computed from these values: registers are scarcer than
  // time.
  __device__ __forceinline__ void forget() {
    for (uint32_t& word : words) asm("" : "+r"(word));
  }
};

// The first channel of a thread's k-th piece.
template <int V>
__device__ __forceinline__ int channel(int k) {
  return (k * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * V;
}

// A thread's pieces of a row; zeros beyond its C channels, and where nothing is given.
template <int V, int K, typename S>
__device__ __forceinline__ void fetch(Piece<V, S> (&to)[K], StridedRows<const S> rows, int64_t row,
                                      int C) {
  const S* from = rows.data + row * rows.stride;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    to[k] = {};
    if (rows.data != nullptr && channel<V>(k) < C)
      to[k] = *reinterpret_cast<const Piece<V, S>*>(from + channel<V>(k));
  }
}

// A thread's weights; zeros beyond C.
template <int V, int K>
__device__ __forceinline__ void fetch_weights(float (&to)[K][V], const float* from, int C) {
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int i = 0; i < V; i += 4) {
      float four[4] = {};
      if (channel<V>(k) < C) load<4>(from + channel<V>(k) + i, four);
#pragma unroll
      for (int j = 0; j < 4; ++j) to[k][i + j] = four[j];
    }
}

// Adds the sums of a block's lines, in their order, and writes them to its row of partial sums.
// shared: a float for each value of every line but the first, for this call alone.
template <int V, int K>
__device__ __forceinline__ void write_partial(float (&sums)[K][V], float* shared, float* to,
                                              int C) {
  const int stride = static_cast<int>(blockDim.x), lines = static_cast<int>(blockDim.y);
  if (lines > 1) {
    if (threadIdx.y > 0) {
      float* mine = shared + (threadIdx.y - 1) * K * V * stride + threadIdx.x;
#pragma unroll
      for (int k = 0; k < K; ++k)
#pragma unroll
        for (int i = 0; i < V; ++i) mine[(k * V + i) * stride] = sums[k][i];
    }
    __syncthreads();
    if (threadIdx.y == 0)
      for (int line = 0; line < lines - 1; ++line) {
        const float* other = shared + line * K * V * stride + threadIdx.x;
#pragma unroll
        for (int k = 0; k < K; ++k)
#pragma unroll
          for (int i = 0; i < V; ++i) sums[k][i] += other[(k * V + i) * stride];
      }
  }
  // No early return: all threads must reach the barrier of the next call.
  if (threadIdx.y == 0)
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < V; i += 4)
        if (channel<V>(k) < C) {
          const float four[4] = {sums[k][i], sums[k][i + 1], sums[k][i + 2], sums[k][i + 3]};
          store<4>(to + channel<V>(k) + i, four);
        }
}

// Threads of a line whose threads hold N values of C, or touch them one by one (values 1).
inline int64_t line_threads(int64_t C, int values) {
  return ceil_div<int64_t>(C, 32 * values) * 32;
}

// Values a thread should hold, 8, 16 or 24, up to `most` if all threads are busy then; 0: a row is
// too long for registers.
inline int values_per_thread(int64_t C, int most) {
  for (int n = most; n >= 8; n -= 8)
    if (C % (32 * n) == 0 && line_threads(C, n) <= max_threads(n)) return n;
  for (int n = 8; n <= 16; n += 8)
    if (line_threads(C, n) <= max_threads(n)) return n;
  return 0;
}

// A block of as many lines as its threads allow.
inline dim3 block_of_lines(int64_t line, int64_t threads) {
  return dim3(static_cast<unsigned>(line),
              static_cast<unsigned>(std::clamp<int64_t>(threads / line, 1, kMaxLines)));
}
inline int blocks_for(int64_t rows, const dim3& block, int most) {
  return static_cast<int>(std::min<int64_t>(ceil_div<int64_t>(rows, block.y), most));
}

// Launches a forward pass in blocks of one line each, as many as run at once: a few more would run
// almost alone. The results do not depend on the number of blocks.
template <typename Kernel, typename Pass>
cudaError_t launch_forward_lines(Kernel* kernel, const Pass& p, int64_t line, cudaStream_t stream) {
  int device = 0, processors = 0, resident = 0;
  if (const auto e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (const auto e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
      e != cudaSuccess)
    return e;
  if (const auto e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel,
                                                                   static_cast<int>(line), 0);
      e != cudaSuccess)
    return e;
  const auto blocks =
      static_cast<unsigned>(std::clamp<int64_t>(int64_t{processors} * resident, 1, p.rows));
  kernel<<<blocks, static_cast<unsigned>(line), 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename T>
bool is_wide_or_none(const StridedRows<T>& rows) {
  return rows.data == nullptr || is_wide(rows.data, rows.stride);
}

}  // namespace hydramix::cuda
