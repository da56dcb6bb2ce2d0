// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hydramix::serve {

// The OpenAPI 3.0 description of all routes, as JSON.
const std::string& openapi_document();

}  // namespace hydramix::serve
