// SPDX-License-Identifier: Apache-2.0
// Runs tasks on LibTorch's threads. CPU kernels are called only through this function.
#pragma once

#include <cstdint>
#include <functional>

namespace hydramix {

// Calls task(i) once for every i in [0, count), in any order, on up to torch::get_num_threads()
// threads. No two tasks may write the same memory; the result then does not depend on the number of
// threads. Numbers below the smallest normal one count as zero in a task.
void parallel(int64_t count, const std::function<void(int64_t)>& task);

}  // namespace hydramix
