// SPDX-License-Identifier: Apache-2.0
#include "data/json_field.h"

#include <nlohmann/json.hpp>

#include "hydramix/error.h"

namespace hydramix {
namespace {

class Finder final : public nlohmann::json::json_sax_t {
 public:
  Finder(std::string_view name, JsonField& result) : name_(name), result_(result) {}

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (!wanted()) return true;
    result_.text = std::move(value);
    result_.found_other = false;
    return true;
  }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    is_wanted_ = name == name_;
    if (!is_wanted_ && result_.other_fields.size() < 100)
      result_.other_fields += (result_.other_fields.empty() ? "" : ", ") + name;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while ..."
    const std::string message = error.what();
    const auto colon = message.find(": ");
    result_.error = concat("not JSON at byte ", byte, ": ",
                           message.substr(colon == std::string::npos ? 0 : colon + 2, 120));
    return false;
  }

 private:
  bool wanted() const { return depth_ == 1 && is_wanted_; }
  bool other() {
    if (wanted()) {
      result_.found_other = true;
      result_.text.reset();
    }
    return true;
  }
  bool open() {
    other();
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::string_view name_;
  JsonField& result_;
  int64_t depth_ = 0;
  bool is_wanted_ = false;
};

}  // namespace

JsonField json_field(std::string_view json, std::string_view name) {
  JsonField result;
  Finder finder(name, result);
  // The library takes a zero byte for the end of the text.
  if (const auto zero = json.find('\0'); zero != json.npos)
    result.error = concat("not JSON at byte ", zero + 1, ": a zero byte");
  else
    nlohmann::json::sax_parse(json.begin(), json.end(), &finder);
  return result;
}

}  // namespace hydramix
