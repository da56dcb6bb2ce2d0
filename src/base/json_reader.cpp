// SPDX-License-Identifier: Apache-2.0
// Builds the tree from the events of the library's parser, which does not recurse. The library's
// own builder searches an ordered object for every new key, which takes quadratic time.
#include "base/json_reader.h"

#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/quotes.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// "syntax error while parsing value - ..." of the library's message: without its identifier in
// brackets, and without the position, which the caller has.
std::string library_reason(std::string_view message) {
  if (const auto syntax = message.find("syntax error"); syntax != message.npos)
    message.remove_prefix(syntax);
  else if (const auto bracket = message.find("] "); bracket != message.npos)
    message.remove_prefix(bracket + 2);
  return escaped(message);
}

template <class Json>
class JsonBuilder final : public nlohmann::json_sax<Json> {
 public:
  using typename nlohmann::json_sax<Json>::number_integer_t;
  using typename nlohmann::json_sax<Json>::number_unsigned_t;
  using typename nlohmann::json_sax<Json>::number_float_t;
  using typename nlohmann::json_sax<Json>::string_t;
  using typename nlohmann::json_sax<Json>::binary_t;

  Json root;
  std::string error;  // why the text is refused; else empty

  bool null() override { return add(Json(nullptr)) != nullptr; }
  bool boolean(bool value) override { return add(Json(value)) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(Json(value)) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return add(Json(value)) != nullptr;
  }
  bool string(string_t& value) override { return add(Json(std::move(value))) != nullptr; }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) {
      error = concat("has the key ", in_quotes(name), " twice in one object");
      return false;
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& exception) override {
    error = concat("is not JSON at byte ", position, ": ", library_reason(exception.what()));
    return false;
  }

 private:
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;  // of an object
  };

  // Adds a value to the innermost open array or object. Its address stays valid until the next
  // value is added at the same level.
  Json* add(Json&& value) {
    if (open_.empty()) return &(root = std::move(value));
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& items = parent.template get_ref<typename Json::array_t&>();
      return &items.emplace_back(std::move(value));
    }
    auto& members = parent.template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>)
      return &members.emplace_back(std::move(key_), std::move(value)).second;  // a vector's
    else
      return &members.emplace(std::move(key_), std::move(value)).first->second;
  }
  bool open(Json&& container) {
    if (static_cast<int64_t>(open_.size()) == kJsonDepth) {
      error = concat("is nested deeper than ", kJsonDepth, " levels");
      return false;
    }
    Json* value = add(std::move(container));
    open_.push_back({value, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Open> open_;
  std::string key_;
};

// Returns why the text is refused; empty when it was read.
template <class Json>
std::string build(std::string_view text, Json& result) {
  text = without_byte_order_mark(text);
  if (const auto zero = text.find('\0'); zero != text.npos)
    return concat("is not JSON at byte ", zero + 1, ": a zero byte");
  JsonBuilder<Json> builder;
  Json::sax_parse(text.begin(), text.end(), &builder);
  result = std::move(builder.root);
  return builder.error;
}

}  // namespace

template <class Json>
Json parse_json(std::string_view text, const std::string& origin, std::string_view advice) {
  Json result;
  const std::string error = build(text, result);
  HYDRAMIX_CHECK(error.empty(), origin, ": ", error, ".", advice.empty() ? "" : " ", advice);
  return result;
}

template <class Json>
Json try_parse_json(std::string_view text) {
  Json result;
  return build(text, result).empty() ? result : Json(nlohmann::json::value_t::discarded);
}

template nlohmann::json parse_json(std::string_view, const std::string&, std::string_view);
template nlohmann::ordered_json parse_json(std::string_view, const std::string&, std::string_view);
template nlohmann::json try_parse_json(std::string_view);
template nlohmann::ordered_json try_parse_json(std::string_view);

}  // namespace hydramix
