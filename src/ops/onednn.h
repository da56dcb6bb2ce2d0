// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hydramix {

// LibTorch computes some functions with oneDNN, such as gelu in float32. oneDNN writes to null
// pointers where memory is missing, and Debian 12's version crashes on bfloat16 on CPUs with AMX.
// After this call LibTorch uses its own code, in the whole process.
void avoid_onednn();

}  // namespace hydramix
