// SPDX-License-Identifier: Apache-2.0
#include "bench/machine.h"

#include <dlfcn.h>

#include "hydramix/torch_compat.h"

namespace hydramix::bench {
namespace {

void set_threads(int count) {
  torch::set_num_threads(count);
  // An OpenBLAS with its own threads ignores LibTorch's setting.
  if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set(count);
}

}  // namespace

Threads::Threads(int count) : before_(torch::get_num_threads()) { set_threads(count); }
Threads::~Threads() { set_threads(before_); }

const Peak& Machine::peak(int threads) {
  const auto [place, added] = peaks_.try_emplace(threads);
  if (!added) return place->second;
  const Threads set(threads);
  torch::NoGradGuard no_grad;
  constexpr int64_t entries = 16 << 20;
  const auto b = torch::rand({entries}), c = torch::rand({entries});
  auto a = torch::empty({entries});
  const auto times = time_interleaved({[&] { torch::add_out(a, b, c, 3.0); }}, timer_);
  // A peak is the best rate that was reached.
  place->second = {.products = measure_product_rates(),
                   .gigabytes_per_s = 1e-9 * 3 * 4 * entries / times[0].best};
  return place->second;
}

}  // namespace hydramix::bench
