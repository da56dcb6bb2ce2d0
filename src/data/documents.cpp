// SPDX-License-Identifier: Apache-2.0
#include "data/documents.h"

#include "hydramix/error.h"

namespace hydramix {

std::vector<Dependency> Documents::dependencies(int64_t, const std::vector<char>&) const {
  throw Error("data: these documents do not know what their words depend on.");
}

}  // namespace hydramix
