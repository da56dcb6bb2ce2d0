// SPDX-License-Identifier: Apache-2.0
// Errors and checks. A message says what was given, what was expected and how to fix it.
//
//   HYDRAMIX_CHECK(x.dim() == 4, "mix: x must be (B, L, H, P); got ", x.sizes(), ". Reshape it.");
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace hydramix {

// The work failed. The command exits with code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The request is wrong: an unknown option, a value out of range. The command exits with code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Joins everything that can be streamed into one text.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  // Without this a stream silently leaves out text that it cannot allocate.
  out.exceptions(std::ios::badbit | std::ios::failbit);
  (out << ... << parts);
  return out.str();
}

}  // namespace hydramix

#define HYDRAMIX_CHECK(condition, ...)                          \
  do {                                                          \
    if (!(condition)) [[unlikely]]                              \
      throw ::hydramix::Error(::hydramix::concat(__VA_ARGS__)); \
  } while (false)

#define HYDRAMIX_CHECK_USAGE(condition, ...)                         \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      throw ::hydramix::UsageError(::hydramix::concat(__VA_ARGS__)); \
  } while (false)
