// SPDX-License-Identifier: Apache-2.0
// Measured peaks of this machine: fused multiply-adds on registers, and a stream through memory.
// Shares in a bench refer to these.
#pragma once

#include <cstdint>
#include <map>

#include "bench/timer.h"
#include "ops/product_rate.h"

namespace hydramix::bench {

struct Peak {
  ProductRates products;
  double gigabytes_per_s = 0;  // a = b + s c over 64 MiB each: two read, one written
};

class Machine {
 public:
  explicit Machine(TimerOptions timer) : timer_(timer) {}

  // Measured at the first call with this number of threads.
  const Peak& peak(int threads);
  bool knows(int threads) const { return peaks_.contains(threads); }

 private:
  TimerOptions timer_;
  std::map<int, Peak> peaks_;
};

// Sets the number of threads of LibTorch and the BLAS until the end of the scope.
class Threads {
 public:
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace hydramix::bench
