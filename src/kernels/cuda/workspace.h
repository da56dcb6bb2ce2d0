// SPDX-License-Identifier: Apache-2.0
// A caller's buffer, cut into the arrays that a call needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hydramix::cuda {

// Hands out pieces of a buffer, or with no buffer only counts them.
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

}  // namespace hydramix::cuda
