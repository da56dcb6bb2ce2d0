// SPDX-License-Identifier: Apache-2.0
// A request and its answer, as the routes see them: without the HTTP library.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydramix::serve {

struct HttpRequest {
  std::string method;
  std::string path;   // decoded, without the query
  std::string query;  // after '?', as sent
  std::string host, origin, authorization, if_none_match;
  std::string requested_headers;  // Access-Control-Request-Headers, of a preflight
  std::string id;                 // of the log and of X-Request-Id
  std::string parameter;          // the part of the path that a route leaves open
  std::string body;
  std::shared_ptr<void> held = {};  // counts the body's bytes until it is gone
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Details for the access log.
  std::string model = {};
  int64_t tokens = 0;
  std::shared_ptr<void> held = {};  // as in HttpRequest
};

using AnswerFunction = std::function<void(HttpAnswer)>;

// "%2F" -> "/"; an HttpError for what is not a percent-encoding, or not UTF-8.
std::string decoded_path(std::string_view path);

struct RequestTarget {
  std::string authority;    // empty unless the target has one
  std::string path, query;  // as in HttpRequest
};
// Of "/path?query" or "http://authority/path?query" (RFC 9112, 3.2).
RequestTarget parsed_target(std::string_view target);

// The value of a key in "a=1&b=2"; empty where it is missing.
std::string query_value(std::string_view query, std::string_view key);

// The client's own id if it is safe to log, else a new one.
std::string request_id(std::string_view given);

// Compares in constant time, so that the time does not reveal which part of the key is wrong.
bool is_key(std::string_view authorization, std::string_view key);

}  // namespace hydramix::serve
