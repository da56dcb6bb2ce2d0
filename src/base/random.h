// SPDX-License-Identifier: Apache-2.0
// Random numbers by count: a stream is a pure function of its key, so whatever is drawn for
// "sequence 17 of seed 3" can be drawn again at any time, on any machine, in any order. That is
// what makes training resume exactly: no generator has a state to save.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace hydramix {

// SplitMix64's finaliser: every bit of the result depends on every bit of the argument.
constexpr uint64_t scrambled(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class RandomStream {
 public:
  // Keys that differ in any number give streams that have nothing in common.
  constexpr explicit RandomStream(std::initializer_list<uint64_t> key) {
    for (const uint64_t number : key) state_ = scrambled(state_ ^ scrambled(number));
  }

  constexpr uint64_t next() { return scrambled(state_ + count_++ * 0xd1342543de82ef95ULL); }
  // In [0, 1), 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // In [0, bound), bound > 0. Of 2^64 numbers the last few fall on smaller results once more often:
  // below anything that could be seen.
  constexpr uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_ = 0, count_ = 0;
};

}  // namespace hydramix
