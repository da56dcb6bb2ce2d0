// SPDX-License-Identifier: Apache-2.0
#include "serve/http_message.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/formatted.h"
#include "serve/http_error.h"

namespace hydramix::serve {
namespace {

constexpr std::size_t kLongestId = 64;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
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
  return decoded;
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
