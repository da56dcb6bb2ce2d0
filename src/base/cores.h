// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hydramix {

// Cores that this process may run on; hardware threads that share a core count once.
int core_count();

}  // namespace hydramix
