// SPDX-License-Identifier: Apache-2.0
#include "serve/page_route.h"

namespace hydramix::serve {

HttpAnswer page_answer(const HttpRequest& request) {
  const auto file = *page_file(request.path);
  const std::string tag = "\"" + std::string(file.digest) + "\"";
  HttpAnswer answer{.content_type = std::string(file.type),
                    .body = "",
                    .headers = {{"Content-Security-Policy", std::string(kPagePolicy)},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cross-Origin-Opener-Policy", "same-origin"},
                                {"ETag", tag},
                                {"Cache-Control", "no-cache"}}};
  if (request.if_none_match == tag)
    answer.status = 304;
  else
    answer.body = std::string(file.content);
  return answer;
}

}  // namespace hydramix::serve
