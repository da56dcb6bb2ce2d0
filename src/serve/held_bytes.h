// SPDX-License-Identifier: Apache-2.0
// Memory that requests hold, counted together up to a limit. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace hydramix::serve {

class ByteBudget {
 public:
  explicit ByteBudget(int64_t most) : most_(most) {}
  int64_t most() const { return most_; }

 private:
  friend class HeldBytes;
  const int64_t most_;
  std::atomic<int64_t> held_ = 0;
};

// The bytes of one request, given back when it is destroyed.
class HeldBytes {
 public:
  explicit HeldBytes(ByteBudget& budget) : budget_(budget) {}
  ~HeldBytes() { set(0); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  // Returns false and changes nothing if all requests together would exceed the limit. A request
  // that is alone may exceed it, or it would never be answered.
  bool try_set(int64_t bytes) {
    const int64_t more = bytes - bytes_, before = budget_.held_.fetch_add(more);
    if (more > 0 && before > bytes_ && before + more > budget_.most_) {
      budget_.held_ -= more;
      return false;
    }
    bytes_ = bytes;
    return true;
  }
  // Counts even above the limit: the memory is already in use.
  void set(int64_t bytes) {
    budget_.held_ += bytes - bytes_;
    bytes_ = bytes;
  }

 private:
  ByteBudget& budget_;
  int64_t bytes_ = 0;
};

}  // namespace hydramix::serve
