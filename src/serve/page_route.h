// SPDX-License-Identifier: Apache-2.0
// Answers with a file of the page.
#pragma once

#include "serve/http_message.h"
#include "serve/page_files.h"

namespace hydramix::serve {

// The path is one of page_paths(). 304 where the client has the file already; browsers ask each
// time, so that a new version of the program is seen at once.
HttpAnswer page_answer(const HttpRequest& request);

}  // namespace hydramix::serve
