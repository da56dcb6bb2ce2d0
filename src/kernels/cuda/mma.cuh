// SPDX-License-Identifier: Apache-2.0
// Matrix products of bfloat16 tiles in shared memory with float32 sums, by the warp-wide
// instruction mma.m16n8k16 that every GPU since Ampere has. In the comments a lane is (g, c)
// with g = lane / 4 and c = lane % 4. It holds these entries:
//
//   A (16 x 16)  a0 = (g, 2c 2c+1)  a1 = (g+8, 2c ..)  a2 = (g, 2c+8 ..)  a3 = (g+8, 2c+8 ..)
//   B (16 x 8)   b0 = (2c 2c+1, g)  b1 = (2c+8 .., g)
//   D (16 x 8)   d0 d1 = (g, 2c 2c+1)  d2 d3 = (g+8, 2c 2c+1)
#pragma once

#include "kernels/cuda/device.cuh"

namespace hydramix::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes into shared memory in the background; zeros unless `valid`.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0));
}
// 4 bytes.
__device__ __forceinline__ void copy_async_word(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(from));
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;\n"); }
// Waits until at most Pending of the groups that this thread committed are in flight.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

// Four 8 x 8 matrices; lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void store_shared(uint32_t address, uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ uint32_t load_shared_word(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint4 load_shared(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_global(void* to, const uint4& v) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};\n" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

// d += A B
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Makes the compiler keep v in a register instead of recomputing it at every use.
__device__ __forceinline__ void keep(uint32_t& v) { asm("" : "+r"(v)); }

// Two bfloat16 in a register: the one of the lower index in the lower half.
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ float low(uint32_t r) { return __uint_as_float(r << 16); }
__device__ __forceinline__ float high(uint32_t r) { return __uint_as_float(r & 0xffff0000u); }
// The same, but the values stay packed. Otherwise the compiler unpacks them before a loop and needs
// twice as many registers.
__device__ __forceinline__ float low_now(uint32_t r) {
  asm volatile("shl.b32 %0, %0, 16;\n" : "+r"(r));
  return __uint_as_float(r);
}
__device__ __forceinline__ float high_now(uint32_t r) {
  asm volatile("and.b32 %0, %0, 0xffff0000;\n" : "+r"(r));
  return __uint_as_float(r);
}
// Products of either half, rounded.
__device__ __forceinline__ uint32_t multiply_pair(uint32_t a, uint32_t b) {
  uint32_t r;
  asm("{.reg .b32 zero; mov.b32 zero, 0x80008000; fma.rn.bf16x2 %0, %1, %2, zero;}\n"
      : "=r"(r)
      : "r"(a), "r"(b));
  return r;
}

// Notes in `seen`, zero at first, whether either half of a word is not finite.
__device__ __forceinline__ void note(uint32_t& seen, uint32_t word) {
  asm("{.reg .b32 zero; mov.b32 zero, 0; fma.rn.bf16x2 %0, %1, zero, %0;}\n"
      : "+r"(seen)
      : "r"(word));
}
__device__ __forceinline__ bool not_finite(uint32_t seen) { return (seen & 0x7fff7fffu) != 0; }

// 2^v; 0 below -126.
__device__ __forceinline__ float power_of_two(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(r) : "f"(v));
  return r;
}

// Rows of W bfloat16 in shared memory. The 16-byte pieces of a row are permuted so that the same
// piece of eight consecutive rows lies in eight different places of a bank line: matrices are then
// read and written without conflicts.
template <int W>
struct Tile {
  static_assert(W == 16 || W == 32 || W == 64 || W == 128);
  static constexpr int kPieces = W / 8;

  static constexpr int bytes(int rows) { return rows * W * 2; }
  static __device__ __forceinline__ int offset(int row, int piece) {  // in bytes
    const int turn = kPieces >= 8 ? row & 7 : kPieces == 4 ? (row >> 1) & 3 : (row >> 2) & 1;
    return (row * kPieces + (piece ^ turn)) * 16;
  }
  // Two neighbouring values.
  static __device__ __forceinline__ int pair(int row, int column) {
    return offset(row, column >> 3) + (column & 7) * 2;
  }

  // A (16 x 16) of the rows from `row` on and the columns from 8 `piece` on.
  static __device__ __forceinline__ void a(uint32_t (&r)[4], uint32_t tile, int row, int piece,
                                           int lane) {
    load_matrices(r, tile + offset(row + (lane & 15), piece + (lane >> 4)));
  }
  // A of the transposed: A's rows are columns of the tile.
  static __device__ __forceinline__ void a_transposed(uint32_t (&r)[4], uint32_t tile, int row,
                                                      int piece, int lane) {
    load_transposed(
        r, tile + offset(row + (lane & 7) + ((lane >> 4) << 3), piece + ((lane >> 3) & 1)));
  }
  // Two B (16 x 8) side by side whose columns are 16 rows of the tile, from `row` on: {r0, r1} and
  // {r2, r3}.
  static __device__ __forceinline__ void b_of_rows(uint32_t (&r)[4], uint32_t tile, int row,
                                                   int piece, int lane) {
    load_matrices(r,
                  tile + offset(row + (lane & 7) + ((lane >> 4) << 3), piece + ((lane >> 3) & 1)));
  }
  // Two B whose rows are 16 rows of the tile, columns 8 `piece` .. 8 `piece` + 15.
  static __device__ __forceinline__ void b(uint32_t (&r)[4], uint32_t tile, int row, int piece,
                                           int lane) {
    load_transposed(r, tile + offset(row + (lane & 15), piece + (lane >> 4)));
  }
};

}  // namespace hydramix::cuda
