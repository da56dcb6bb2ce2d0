// SPDX-License-Identifier: Apache-2.0
// acc += A B, where a warp holds its 16 rows of A in registers and B is in shared memory. On Hopper
// the four warps of a warpgroup do it with one asynchronous instruction, wgmma, which reads B by
// itself; elsewhere every warp loads B and uses mma. All warps of a warpgroup must call these
// functions together, with the same B.
//
//   begin_products()          before the first product, and after other code has written acc
//   add_product_with_...()    any number of times; on Hopper these do not wait for one another
//   wait_for_products<n>()    all but the last n products have read their A and added to acc
#pragma once

#include "kernels/cuda/mma.cuh"

namespace hydramix::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool kWarpgroups = true;
#else
constexpr bool kWarpgroups = false;
#endif

// Copies by cp.async, once they have arrived, become visible to wgmma. Before the barrier.
__device__ __forceinline__ void publish_copies() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void begin_products() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

template <int kPending>
__device__ __forceinline__ void wait_for_products() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
#endif
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// How wgmma names the order of the pieces in a Tile<W>; 0 is that of a state, blocks one after
// another.
template <int W>
constexpr int kPermutationOf = W == 64 ? 1 : 2;

// Where wgmma finds B: 8 x 8 blocks (or lines of a permuted tile) `lead` and `stride` bytes apart.
template <int kPermutation>
__device__ __forceinline__ uint64_t descriptor(uint32_t address, int lead, int stride) {
  return (static_cast<uint64_t>(kPermutation) << 62) | (static_cast<uint64_t>(stride >> 4) << 32) |
         (static_cast<uint64_t>(lead >> 4) << 16) | ((address & 0x3ffff) >> 4);
}

// An assembler statement names each register, so these lists are written out: those of a sum (64 x
// 32 or 64 x 64) that a thread holds, and of its part of A.
#define HYDRAMIX_FOUR(d, j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define HYDRAMIX_SUMS_32(d) \
  HYDRAMIX_FOUR(d, 0), HYDRAMIX_FOUR(d, 1), HYDRAMIX_FOUR(d, 2), HYDRAMIX_FOUR(d, 3)
#define HYDRAMIX_SUMS_64(d)                                                           \
  HYDRAMIX_SUMS_32(d), HYDRAMIX_FOUR(d, 4), HYDRAMIX_FOUR(d, 5), HYDRAMIX_FOUR(d, 6), \
      HYDRAMIX_FOUR(d, 7)
#define HYDRAMIX_NAMES_32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define HYDRAMIX_NAMES_64 \
  HYDRAMIX_NAMES_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
// One product of `columns` columns, a group of its own. `operands` are A and B, `add` is the
// register that says whether to add, `ways`: constants for the memory order of A and B.
#define HYDRAMIX_WGMMA(columns, add, operands, ways)             \
  "{.reg .pred p; setp.ne.b32 p, " add                           \
  ", 0;\n"                                                       \
  "wgmma.mma_async.sync.aligned.m64n" #columns                   \
  "k16.f32.bf16.bf16 "                                           \
  "{" HYDRAMIX_NAMES_##columns "}, " operands ", p, 1, 1, " ways \
                               ";}\n"                            \
                               "wgmma.commit_group.sync.aligned;\n"

// kRows: B's 16 rows are rows in memory; otherwise its columns are.
template <bool kRows>
__device__ __forceinline__ void wgmma(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b,
                                      bool add) {
  asm volatile(HYDRAMIX_WGMMA(64, "%37", "{%32,%33,%34,%35}, %36", "%38")
               : HYDRAMIX_SUMS_64(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
                 "n"(kRows ? 1 : 0));
}
template <bool kRows>
__device__ __forceinline__ void wgmma(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b,
                                      bool add) {
  asm volatile(HYDRAMIX_WGMMA(32, "%21", "{%16,%17,%18,%19}, %20", "%22")
               : HYDRAMIX_SUMS_32(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
                 "n"(kRows ? 1 : 0));
}
// The same with A (64 x 16) in shared memory, row by row.
template <bool kRows>
__device__ __forceinline__ void wgmma(float (&d)[8][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(HYDRAMIX_WGMMA(64, "%34", "%32, %33", "0, %35")
               : HYDRAMIX_SUMS_64(d)
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kRows ? 1 : 0));
}
template <bool kRows>
__device__ __forceinline__ void wgmma(float (&d)[4][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(HYDRAMIX_WGMMA(32, "%18", "%16, %17", "0, %19")
               : HYDRAMIX_SUMS_32(d)
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kRows ? 1 : 0));
}

#undef HYDRAMIX_FOUR
#undef HYDRAMIX_SUMS_32
#undef HYDRAMIX_SUMS_64
#undef HYDRAMIX_NAMES_32
#undef HYDRAMIX_NAMES_64
#undef HYDRAMIX_WGMMA

#endif

// B: the rows 16 k .. 16 k + 15 of a tile of P columns, whose address is a multiple of 1024.
// Without `add`, Hopper sets acc; elsewhere acc must be zero.
template <int P>
__device__ __forceinline__ void add_product_with_rows(float (&acc)[P / 8][4],
                                                      const uint32_t (&a)[4], uint32_t tile, int k,
                                                      int lane, bool add = true) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kLine = P * 2;  // bytes
  wgmma<true>(acc, a, descriptor<kPermutationOf<P>>(tile + k * 16 * kLine, 8 * kLine, 8 * kLine),
              add);
#else
#pragma unroll
  for (int j = 0; j < P / 16; ++j) {
    uint32_t b[4];
    Tile<P>::b(b, tile, 16 * k, 2 * j, lane);
    multiply(acc[2 * j], a, b[0], b[1]);
    multiply(acc[2 * j + 1], a, b[2], b[3]);
  }
#endif
}

// acc = the sum over k = 0, 1, .. of A B: B's 64 columns are the rows `first` .. `first` + 63 of a
// tile of P columns, its rows the columns 16 k .. 16 k + 15 of the tile. Only for warpgroups.
template <int P>
__device__ __forceinline__ void set_product_with_columns(float (&acc)[8][4], const uint32_t (&a)[4],
                                                         uint32_t tile, int first, int k) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kLine = P * 2;
  wgmma<false>(acc, a,
               descriptor<kPermutationOf<P>>(tile + first * kLine + k * 32, 8 * kLine, 8 * kLine),
               k > 0);
#endif
}

// B: the columns 16 k .. 16 k + 15, transposed, of a state (P x N) in 8 x 8 blocks.
template <int P, int N>
__device__ __forceinline__ void add_product_with_state(float (&acc)[P / 8][4],
                                                       const uint32_t (&a)[4], uint32_t state,
                                                       int k) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  wgmma<false>(acc, a, descriptor<0>(state + k * 256, 128, N / 8 * 128), true);
#endif
}

// sum = 64 rows of a tile of P columns, from the warpgroup's first row on, times a state (P x N).
// Waits for the result.
template <int P, int N>
__device__ __forceinline__ void rows_times_state(float (&sum)[N / 8][4], uint32_t rows,
                                                 uint32_t state) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kLine = P * 2;
  begin_products();
#pragma unroll
  for (int k = 0; k < P / 16; ++k)
    wgmma<true>(sum, descriptor<kPermutationOf<P>>(rows + k * 32, 8 * kLine, 8 * kLine),
                descriptor<0>(state + k * 2 * (N / 8) * 128, N / 8 * 128, 128), k > 0);
  wait_for_products<0>();
#endif
}

}  // namespace hydramix::cuda
