// SPDX-License-Identifier: Apache-2.0
// Answers with a file of the page.
#pragma once

#include "serve/http_message.h"
#include "serve/page_files.h"

namespace hydramix::serve {

// The path is one of page_paths(). Answers 304 if the client already has the file. Browsers ask
// each time, so that they notice a new version of the program at once.
HttpAnswer page_answer(const HttpRequest& request);

}  // namespace hydramix::serve
