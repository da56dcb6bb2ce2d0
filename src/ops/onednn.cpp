// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn.h"

#include <ATen/Context.h>

namespace hydramix {

void avoid_onednn() { at::globalContext().setUserEnabledMkldnn(false); }

}  // namespace hydramix
