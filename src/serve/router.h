// SPDX-License-Identifier: Apache-2.0
// Finds the route of a method and a path. A pattern may leave one part of the path open:
// "/runs/{}/metrics".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_message.h"
#include "serve/text_routes.h"

namespace hydramix::serve {

// Has either `prepare`, for a route whose work a model computes, or `answer`.
struct Route {
  std::string method;   // GET routes answer HEAD too
  std::string pattern;  // also its name in logs and metrics
  PrepareRequest prepare = nullptr;
  std::function<HttpAnswer(const HttpRequest&)> answer = {};  // or throws an HttpError
  bool reads_files = false;  // `answer` may take long, in a thread of its own
  bool is_public = false;    // needs no --api-key
};

class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }

  struct Match {
    const Route* route = nullptr;
    std::string parameter = {};
  };
  // An HttpError 404, or 405 where the path has other methods (`allowed` then lists them).
  Match match(std::string_view method, std::string_view path, std::string& allowed) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace hydramix::serve
