// SPDX-License-Identifier: Apache-2.0
// Random numbers that are a pure function of a key: the same on every machine and library, and the
// sequences of different keys are unrelated. (std::uniform_int_distribution differs by library.)
// The numbers for "sequence 17 of seed 3" can be drawn again at any time and in any order. Training
// therefore resumes exactly: there is no generator state to save.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace hydramix {

// The output function of SplitMix64: a bijection that scatters neighbouring inputs.
constexpr uint64_t scatter(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
 public:
  Random(uint64_t seed, uint64_t stream, uint64_t index)
      : state_(scatter(scatter(scatter(seed + kStep) + stream * kStep) + index * kStep)) {}

  uint64_t next() {
    state_ += kStep;
    return scatter(state_);
  }
  // Uniform in [0, count), count < 2^32. The bias is below count / 2^32.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(((next() >> 32) * static_cast<uint64_t>(count)) >> 32);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // in [0, 1)
  bool chance(int64_t part, int64_t whole) { return below(whole) < part; }

  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int64_t>(list.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t state_;
};

}  // namespace hydramix
