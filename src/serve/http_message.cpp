// SPDX-License-Identifier: Apache-2.0
#include "serve/http_message.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/formatted.h"
#include "serve/http_error.h"
#include "text/unicode.h"

namespace hydramix::serve {
namespace {

constexpr std::size_t kLongestId = 64;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// `start` is in lower case.
bool starts_in_any_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

bool is_harmless(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.';
}

}  // namespace

std::string decoded_path(std::string_view path) {
  std::string decoded;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded += path[i];
      continue;
    }
    const int high = i + 2 < path.size() ? hex_digit(path[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(path[i + 2]) : -1;
    if (low < 0 || (high == 0 && low == 0))
      throw bad_request("the path has a '%' that two hexadecimal digits do not follow.");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (unicode::valid_utf8_prefix(decoded) != decoded.size())
    throw bad_request("the path or the query is not UTF-8.");
  return decoded;
}

RequestTarget parsed_target(std::string_view target) {
  RequestTarget parsed;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!starts_in_any_case(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    parsed.authority = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(parsed.authority.size());
    if (parsed.authority.empty() || parsed.authority.find('@') != std::string::npos)
      throw bad_request("the target of the request has no host, or a user before it.");
    break;
  }
  const auto path = target.substr(0, target.find('?'));
  target.remove_prefix(std::min(target.size(), path.size() + 1));
  parsed.query = target;
  parsed.path = path.empty() && !parsed.authority.empty() ? "/" : decoded_path(path);
  return parsed;
}

std::string query_value(std::string_view query, std::string_view key) {
  while (!query.empty()) {
    const auto part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    if (part.size() > key.size() && part.starts_with(key) && part[key.size()] == '=')
      return decoded_path(part.substr(key.size() + 1));
  }
  return "";
}

std::string request_id(std::string_view given) {
  if (!given.empty() && given.size() <= kLongestId &&
      std::all_of(given.begin(), given.end(), is_harmless))
    return std::string(given);
  static const auto start = static_cast<uint64_t>(
      std::chrono::system_clock::now().time_since_epoch() / std::chrono::milliseconds(1));
  static std::atomic<uint64_t> next = 1;
  return formatted("%llx-%llx", start, next.fetch_add(1));
}

bool is_key(std::string_view authorization, std::string_view key) {
  constexpr std::string_view kScheme = "Bearer ";
  const bool has_scheme = authorization.starts_with(kScheme);
  if (has_scheme) authorization.remove_prefix(kScheme.size());
  unsigned difference = has_scheme && authorization.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < key.size(); ++i)
    difference |= static_cast<unsigned char>(key[i]) ^
                  static_cast<unsigned char>(i < authorization.size() ? authorization[i] : 0);
  return difference == 0;
}

}  // namespace hydramix::serve
