// SPDX-License-Identifier: Apache-2.0
// The JSON object of a request, read key by key. A key that has the wrong type or is missing is an
// HttpError that names it. Unknown keys are ignored, because other servers have more of them.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix::serve {

class RequestBody {
 public:
  explicit RequestBody(std::string_view text);
  // A part of another body; `name` is its key there.
  RequestBody(nlohmann::json object, std::string name);

  const nlohmann::json* find(const std::string& key);  // null where it is missing or null
  const nlohmann::json& required(const std::string& key);
  bool flag(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  int64_t integer(const std::string& key, int64_t otherwise, int64_t least, int64_t most);
  // Throws if an unknown key looks like a misspelling of a known one that is missing. Call it after
  // reading all keys.
  void finish() const;

 private:
  nlohmann::json object_;
  std::string name_;
  std::vector<std::string> known_;
};

// A text, or a list of at least one; an empty list is 400, more than `most` are 422.
std::vector<std::string> texts_of(const nlohmann::json& value, const std::string& key,
                                  int64_t most);
std::string text_of(const nlohmann::json& value, const std::string& key);
void check_count(std::size_t count, const std::string& key, int64_t most,
                 std::string_view flag = "--max-client-batch-size");

}  // namespace hydramix::serve
