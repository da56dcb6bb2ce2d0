// SPDX-License-Identifier: Apache-2.0
// The only door to the CPU kernels: many calls of them, on LibTorch's threads.
#pragma once

#include <cstdint>
#include <functional>

namespace hydramix {

// Calls task(i) once for every i in [0, count), in no order, on up to torch::get_num_threads()
// threads. Which thread takes which task is not fixed: tasks must not share what they write. What
// they compute then does not depend on the number of threads.
void parallel(int64_t count, const std::function<void(int64_t)>& task);

}  // namespace hydramix
