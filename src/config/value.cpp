// SPDX-License-Identifier: Apache-2.0
// Numbers are read strictly: the whole text must be the number, and it must fit. Integers may be
// written 1e6, as step counts often are. 1.5e3 and 010 are refused because they are ambiguous to
// readers.
#include "config/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;

// Calls function with a reference to the value of a field that is not a section.
template <class Function>
auto with_value(const Field& field, const Function& function) {
  return std::visit(
      [&](auto storage) -> std::invoke_result_t<Function, bool&> {
        if constexpr (std::is_pointer_v<decltype(storage)>)
          return function(*storage);
        else
          throw std::logic_error(field.path + " is a section and has no value of its own");
      },
      field.storage);
}

// Each parse() returns whether the node is a value of that type.
bool parse(const Node& node, bool& value) {
  value = node.text == "true";
  return !node.quoted && (value || node.text == "false");
}

bool parse(const Node& node, std::string& value) {
  value = node.text;
  return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <class Number>
bool parse_whole(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse(const Node& node, int64_t& value) {
  std::string_view text = node.text;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto e = text.find_first_of("eE");
  const auto mantissa = text.substr(0, e);
  const auto digits = mantissa.substr(mantissa.starts_with('-') ? 1 : 0);
  const bool leading_zero = digits.size() > 1 && digits[0] == '0';
  if (node.quoted || leading_zero || !parse_whole(mantissa, value)) return false;
  if (e == std::string_view::npos) return true;

  auto exponent_text = text.substr(e + 1);
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  unsigned exponent = 0;
  if (!parse_whole(exponent_text, exponent)) return false;
  for (; exponent > 0 && value != 0; --exponent)
    if (__builtin_mul_overflow(value, int64_t{10}, &value)) return false;
  return true;
}

bool parse(const Node& node, double& value) {
  std::string_view text = node.text;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "inf" || text == ".inf")  // in quotes too, as in JSON
    value = kInfinity;
  else if (node.quoted || text.empty() || !(is_digit(text[0]) || text[0] == '.') ||
           !parse_whole(text, value))
    return false;
  if (negative) value = -value;
  return true;
}

// All values end up in a JSON file, so the JSON writer decides what is UTF-8.
bool is_utf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

bool in_range(const Field& field, double value) {
  return !field.range || (value >= field.range->low && value <= field.range->high);
}

bool allowed(const Field&, bool) { return true; }
bool allowed(const Field& field, int64_t value) {
  return in_range(field, static_cast<double>(value));
}
bool allowed(const Field& field, double value) {
  return !std::isnan(value) && in_range(field, value);
}
bool allowed(const Field& field, const std::string& value) {
  if (!field.choices) return is_utf8(value);
  const auto names = field.choices->names();
  return std::find(names.begin(), names.end(), value) != names.end();
}

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(double value) {
  // The shortest digits that read back exactly, but 1000000 and not 1e+06.
  if (value == std::floor(value) && std::fabs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.begin(), buffer.end(), value).ptr};
}

nlohmann::ordered_json json_of(double value) {
  if (std::isinf(value)) return text_of(value);
  return value;
}
template <class T>
nlohmann::ordered_json json_of(const T& value) {
  return value;
}

struct TypeWords {
  std::string name, one, many;
};

TypeWords words(const Field& field) {
  return with_value(field, [](const auto& value) -> TypeWords {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, bool>) return {"true/false", "true or false", ""};
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::vector<int64_t>>)
      return {"integer", "an integer", "integers"};
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::vector<double>>)
      return {"number", "a number", "numbers"};
    return {"text", "a text", "texts"};
  });
}

// The requirement on one value, or on one item of a list.
std::string item_text(const Field& field) {
  if (field.choices) return "one of: " + allowed_text(field);
  const std::string range = allowed_text(field);
  return words(field).one + (range.empty() ? "" : " (" + range + ")");
}

[[noreturn]] void fail(const std::string& where, const std::string& given,
                       const std::string& expected, const std::string& hint = "") {
  throw UsageError(concat(where, ": got ", given, ", expected ", expected, ".", hint));
}

template <class T>
void check_item(const Field& field, const T& value, const std::string& where,
                const std::string& given) {
  if (allowed(field, value)) return;
  std::string hint;
  if constexpr (std::is_same_v<T, std::string>)
    hint = field.choices ? did_you_mean(value, field.choices->names()) : " It must be UTF-8.";
  fail(where, given, item_text(field), hint);
}

template <class T>
void assign_item(const Field& field, const Node& given, const std::string& where, T& value) {
  if (given.kind != Node::Kind::kScalar || !parse(given, value))
    fail(where, shown(given), item_text(field),
         std::is_same_v<T, int64_t> && given.text.size() > 18 ? " It must fit in 64 bits." : "");
  check_item(field, value, where, shown(given));
}

std::string located(const std::string& origin, int line, const std::string& path) {
  return origin.empty() ? path : place(origin, line) + ": " + path;
}

std::string item_path(const Field& field, std::size_t index) {
  return concat("item ", index + 1, " of ", field.path);
}

}  // namespace

void assign(const Field& field, const Node& given, const std::string& origin) {
  with_value(field, [&](auto& value) {
    using T = std::remove_reference_t<decltype(value)>;
    const std::string where = located(origin, given.line, field.path);
    if constexpr (is_vector<T>) {
      if (given.kind != Node::Kind::kSequence) fail(where, shown(given), expected_text(field));
      T items(given.items.size());
      for (std::size_t i = 0; i < items.size(); ++i)
        assign_item(field, given.items[i],
                    located(origin, given.items[i].line, item_path(field, i)), items[i]);
      value = std::move(items);
    } else {
      assign_item(field, given, where, value);
    }
  });
}

Node from_text(const Field& field, const std::string& text, const std::string& origin) {
  if (!field.is_list()) return scalar_node(text);
  if (text.starts_with('[')) {
    Node list = parse_document(text, origin);
    list.line = 0;  // a line number within a command line argument is of no use
    for (Node& item : list.items) item.line = 0;
    return list;
  }
  std::vector<std::string> items;
  for (std::size_t begin = 0, end = 0; end < text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
  }
  return sequence_node(items);
}

void check(const Field& field) {
  if (field.required && is_empty(field))
    throw UsageError(concat(field.path, ": nothing given, expected ", expected_text(field), ": ",
                            field.help, "."));
  with_value(field, [&](const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (is_vector<T>) {
      for (std::size_t i = 0; i < value.size(); ++i)
        check_item(field, value[i], item_path(field, i), "'" + text_of(value[i]) + "'");
    } else {
      check_item(field, value, field.path, "'" + text_of(value) + "'");
    }
  });
}

bool is_empty(const Field& field) {
  return with_value(field, [](const auto& value) {
    if constexpr (requires { value.empty(); }) return value.empty();
    return false;
  });
}

nlohmann::ordered_json value_json(const Field& field) {
  return with_value(field, [](const auto& value) {
    if constexpr (!is_vector<std::remove_cvref_t<decltype(value)>>) {
      return json_of(value);
    } else {
      auto list = nlohmann::ordered_json::array();
      for (const auto& item : value) list.push_back(json_of(item));
      return list;
    }
  });
}

std::string type_text(const Field& field) {
  return field.is_list() ? "list of " + words(field).many : words(field).name;
}

std::string allowed_text(const Field& field) {
  if (field.choices) return join(field.choices->names());
  if (!field.range) return "";
  const bool has_low = std::isfinite(field.range->low);
  const bool has_high = std::isfinite(field.range->high);
  const std::string low = text_of(field.range->low), high = text_of(field.range->high);
  if (has_low && has_high) return low + " to " + high;
  if (has_low) return "at least " + low;
  return has_high ? "at most " + high : "";
}

std::string expected_text(const Field& field) {
  if (!field.is_list()) return item_text(field);
  const std::string each = (field.choices ? "one of: " : "") + allowed_text(field);
  return "a list of " + words(field).many + (each.empty() ? "" : " (each " + each + ")");
}

std::string value_text(const Field& field) {
  return with_value(field, [](const auto& value) {
    if constexpr (!is_vector<std::remove_cvref_t<decltype(value)>>) {
      return text_of(value);
    } else {
      std::vector<std::string> texts;
      for (const auto& item : value) texts.push_back(text_of(item));
      return join(texts, ",");
    }
  });
}

}  // namespace hydramix
