// SPDX-License-Identifier: Apache-2.0
#include "serve/request_body.h"

#include <algorithm>

#include "base/json_reader.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "serve/http_error.h"

namespace hydramix::serve {
namespace {

// Longer keys are near to no known one, and looking at very many would take long.
constexpr std::size_t kMostKeyLength = 40, kMostUnknownKeys = 32;

nlohmann::json parsed_object(std::string_view text) {
  nlohmann::json object;
  try {
    object = parse_json<nlohmann::json>(text, "the body");
  } catch (const HttpError&) {
    throw;
  } catch (const Error& error) {
    throw bad_request(error.what());
  }
  if (!object.is_object())
    throw bad_request("the body is JSON of the type ", object.type_name(),
                      "; expected an object such as {\"inputs\": \"a text\"}.");
  return object;
}

}  // namespace

RequestBody::RequestBody(std::string_view text) : object_(parsed_object(text)) {}

RequestBody::RequestBody(nlohmann::json object, std::string name)
    : object_(std::move(object)), name_(std::move(name)) {}

const nlohmann::json* RequestBody::find(const std::string& key) {
  known_.push_back(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json& RequestBody::required(const std::string& key) {
  const auto* value = find(key);
  if (value == nullptr) throw bad_request("'", name_, key, "' is missing.");
  return *value;
}

bool RequestBody::flag(const std::string& key, bool otherwise) {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean())
    throw bad_request("'", name_, key, "' is of the type ", value->type_name(),
                      "; expected true or false.");
  return value->get<bool>();
}

std::string RequestBody::text(const std::string& key, const std::string& otherwise) {
  const auto* value = find(key);
  return value == nullptr ? otherwise : text_of(*value, name_ + key);
}

int64_t RequestBody::integer(const std::string& key, int64_t otherwise, int64_t least,
                             int64_t most) {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  // A number above int64 is unsigned in the library.
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most)
    throw bad_request("'", name_, key, "' is ", clipped(value->dump(), 80),
                      "; expected a whole number from ", least, " to ", most, ".");
  return value->get<int64_t>();
}

void RequestBody::finish() const {
  std::size_t unknown = 0;
  for (const auto& item : object_.items()) {
    const auto& key = item.key();
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    if (++unknown > kMostUnknownKeys) return;
    const auto meant = key.size() <= kMostKeyLength ? nearest(key, known_) : "";
    if (!meant.empty() && !object_.contains(meant))
      throw bad_request("unknown key ", in_quotes(name_ + key), ". Did you mean '", name_, meant,
                        "'?");
  }
}

std::string text_of(const nlohmann::json& value, const std::string& key) {
  if (!value.is_string())
    throw bad_request("'", key, "' is of the type ", value.type_name(), "; expected a text.");
  return value.get<std::string>();
}

void check_count(std::size_t count, const std::string& key, int64_t most, std::string_view flag) {
  if (count == 0)
    throw HttpError(400, "empty", concat("'", key, "' is an empty list; give at least one."));
  if (std::cmp_greater(count, most))
    throw invalid("'", key, "' has ", count, " entries; the server takes ", most, " in a request (",
                  flag, "). Send them in several requests.");
}

std::vector<std::string> texts_of(const nlohmann::json& value, const std::string& key,
                                  int64_t most) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array())
    throw bad_request("'", key, "' is of the type ", value.type_name(),
                      "; expected a text or a list of texts.");
  check_count(value.size(), key, most);
  std::vector<std::string> texts;
  for (const auto& entry : value)
    texts.push_back(text_of(entry, concat(key, "[", texts.size(), "]")));
  return texts;
}

}  // namespace hydramix::serve
