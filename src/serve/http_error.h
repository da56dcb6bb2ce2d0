// SPDX-License-Identifier: Apache-2.0
// The error that answers a request: its status, its type and a message that says what to do.
#pragma once

#include <string>

#include "hydramix/error.h"

namespace hydramix::serve {

class HttpError : public Error {
 public:
  HttpError(int status, std::string type, const std::string& message)
      : Error(message), status_(status), type_(std::move(type)) {}
  int status() const { return status_; }
  const std::string& type() const { return type_; }

 private:
  int status_;
  std::string type_;
};

template <class... Parts>
HttpError bad_request(const Parts&... parts) {
  return {400, "bad_request", concat(parts...)};
}
template <class... Parts>
HttpError invalid(const Parts&... parts) {
  return {422, "validation", concat(parts...)};
}
template <class... Parts>
HttpError not_found(const Parts&... parts) {
  return {404, "not_found", concat(parts...)};
}

// The body of the answer; under /v1 in OpenAI's shape.
std::string error_body(const HttpError& error, bool openai);

}  // namespace hydramix::serve
