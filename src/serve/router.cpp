// SPDX-License-Identifier: Apache-2.0
#include "serve/router.h"

#include "base/quotes.h"
#include "serve/http_error.h"

namespace hydramix::serve {
namespace {

bool matches(std::string_view pattern, std::string_view path, std::string& parameter) {
  const auto open = pattern.find("{}");
  if (open == std::string_view::npos) return pattern == path;
  const auto before = pattern.substr(0, open), after = pattern.substr(open + 2);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) ||
      !path.ends_with(after))
    return false;
  parameter = path.substr(before.size(), path.size() - before.size() - after.size());
  return true;
}

}  // namespace

Router::Match Router::match(std::string_view method, std::string_view path,
                            std::string& allowed) const {
  for (const auto& route : routes_) {
    Match match{&route, ""};
    if (!matches(route.pattern, path, match.parameter)) continue;
    if (route.method == method || (route.method == "GET" && method == "HEAD")) return match;
    allowed += (allowed.empty() ? "" : ", ") + route.method;
  }
  if (allowed.empty())
    throw not_found("there is no ", in_quotes(clipped(path, 80)),
                    ". GET /openapi.json lists the routes.");
  throw HttpError(405, "method",
                  concat(escaped(clipped(path, 80)), " is for ", allowed, ", not ",
                         escaped(clipped(method, 20)), "."));
}

}  // namespace hydramix::serve
