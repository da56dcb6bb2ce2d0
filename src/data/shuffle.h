// SPDX-License-Identifier: Apache-2.0
// A random permutation of [0, n) without storing it: a keyed bijection (a Feistel network on the
// next power of four, repeated until the result is below n). O(1) time and memory per element, so
// an epoch over a billion documents needs no list and resumes from a number.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace hydramix {

class Shuffle {
 public:
  Shuffle(int64_t n, uint64_t seed, uint64_t epoch) : n_(static_cast<uint64_t>(n)) {
    while ((uint64_t{1} << (2 * half_bits_)) < n_) ++half_bits_;
    Random random(seed, kStream, epoch);
    for (uint64_t& key : keys_) key = random.next();
  }

  // The element at position `place`.
  int64_t operator()(int64_t place) const {
    uint64_t x = static_cast<uint64_t>(place);
    do x = permuted(x);
    while (x >= n_);
    return static_cast<int64_t>(x);
  }

 private:
  static constexpr uint64_t kStream = 0x53485546;  // differs from the other streams of the seed
  uint64_t permuted(uint64_t x) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = x >> half_bits_, right = x & mask;
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (scatter(right ^ key) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t n_;
  unsigned half_bits_ = 1;
  uint64_t keys_[4] = {};
};

}  // namespace hydramix
