// SPDX-License-Identifier: Apache-2.0
// The GPU that work is cut for. How a sum is cut into parts decides its bits, so such cuts are the
// same on every device: never ask the one at hand. What does not change a result may ask
// (multiprocessors() in scan_parts.cuh).
#pragma once

namespace hydramix::cuda {

constexpr int kReferenceProcessors = 132;  // multiprocessors of an H100 or H200

}  // namespace hydramix::cuda
