// SPDX-License-Identifier: Apache-2.0
// Cuts a caller's buffer into the arrays of a call; zeros arrays.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace hydramix::cuda {

// Hands out pieces of a buffer. Without a buffer it only counts bytes.
class Pieces {
 public:
  explicit Pieces(void* buffer) : base_(static_cast<uint8_t*>(buffer)) {}
  template <typename T>
  T* take(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  std::size_t bytes() const { return used_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  uint8_t* base_;
  std::size_t used_ = 0;
};

// Zeros arrays of `count` values each; null arrays are skipped.
inline cudaError_t zero(std::initializer_list<float*> arrays, int count, cudaStream_t stream) {
  for (float* array : arrays)
    if (array != nullptr)
      if (const auto e = cudaMemsetAsync(array, 0, sizeof(float) * count, stream); e != cudaSuccess)
        return e;
  return cudaSuccess;
}

}  // namespace hydramix::cuda
