// SPDX-License-Identifier: Apache-2.0
// Options: plain structs whose fields are declared once. Reading YAML or JSON, writing JSON,
// command line flags, help and docs/cli.md all come from that declaration:
//
//   struct MixerOptions {
//     int64_t d_state = 64;
//     std::string name = "quasiseparable";
//     std::vector<std::string> files;
//     BlockOptions block;
//
//     template <class Self, class Visitor>
//     static void fields(Self& self, Visitor& v) {
//       v("d_state", self.d_state, Range{1, 4096}, "state size N of the scan");
//       v("name", self.name, Choices{mixer_names}, "which mixer");
//       v("files", self.files, Positional{}, Required{}, "what to read");
//       v("block", self.block, "the block around it");  // nested: anything with fields()
//     }
//   };
//
// Fields are bool, int64_t, double, std::string, std::vector of the last three, or nested structs.
// After the name and the field come any of Range, Choices, Positional, Required and the help text.
#pragma once

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hydramix {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A number, or each number of a list, lies in [low, high]. Range{1, kInfinity} has no upper end.
// The bounds are doubles: for integers they are exact up to 2^53.
struct Range {
  double low, high;
  template <class Low, class High>
  constexpr Range(Low low_end, High high_end)
      : low(static_cast<double>(low_end)), high(static_cast<double>(high_end)) {}
};

// A text, or each text of a list, is one of these. A function is called each time, so a registry
// may be filled after the options are declared.
struct Choices {
  std::function<std::vector<std::string>()> names;
  Choices(std::vector<std::string> list) : names([list = std::move(list)] { return list; }) {}
  Choices(std::initializer_list<std::string> list) : Choices(std::vector<std::string>(list)) {}
  template <std::invocable Function>
  Choices(Function function) : names(std::move(function)) {}
};

// On the command line the field is an argument, not a flag. A list takes all arguments that remain.
struct Positional {};
// A text or list that must not be left empty.
struct Required {};

struct Field {
  // Points to the value; monostate for a section, whose fields are `members`.
  using Storage =
      std::variant<std::monostate, bool*, int64_t*, double*, std::string*, std::vector<int64_t>*,
                   std::vector<double>*, std::vector<std::string>*>;

  std::string path;  // "mixer.d_state"
  Storage storage;
  std::string help;
  std::optional<Range> range;
  std::optional<Choices> choices;
  bool positional = false;
  bool required = false;
  std::vector<Field> members;

  bool is_section() const { return std::holds_alternative<std::monostate>(storage); }
  bool is_list() const {
    return std::holds_alternative<std::vector<int64_t>*>(storage) ||
           std::holds_alternative<std::vector<double>*>(storage) ||
           std::holds_alternative<std::vector<std::string>*>(storage);
  }
  std::string name() const { return path.substr(path.rfind('.') + 1); }  // "d_state"
};
using Fields = std::vector<Field>;

// The visitor that fields() is called with.
class FieldCollector {
 public:
  explicit FieldCollector(std::string prefix = "") : prefix_(std::move(prefix)) {}

  template <class T, class... Notes>
  void operator()(std::string_view name, T& value, const Notes&... notes);

  Fields fields;

 private:
  void add(Field field);  // throws when a name is malformed or declared twice
  static void note(Field& field, const Range& range) { field.range = range; }
  static void note(Field& field, const Choices& choices) { field.choices = choices; }
  static void note(Field& field, Positional) { field.positional = true; }
  static void note(Field& field, Required) { field.required = true; }
  static void note(Field& field, const char* help) { field.help = help; }

  std::string prefix_;
};

template <class T>
concept HasFields = std::copyable<T> && requires(T& options, FieldCollector& visitor) {
  T::fields(options, visitor);
};

// The fields of a struct. They point into it: it must outlive them and not move.
template <HasFields Options>
Fields fields_of(Options& options, std::string prefix = "") {
  FieldCollector collector(std::move(prefix));
  Options::fields(options, collector);
  return std::move(collector.fields);
}

struct FieldDescription {
  std::string path, type, default_text, allowed, help;
};

// The operations exist twice. On Fields they are type-erased, and a failure keeps what was applied
// before it. On a struct (below) a failure changes nothing. All errors are UsageError.
std::vector<FieldDescription> describe(const Fields& fields);
nlohmann::ordered_json to_json(const Fields& fields);
void parse_yaml(const Fields& fields, const std::string& text, const std::string& origin);
void load_yaml(const Fields& fields, const std::filesystem::path& path);
void set(const Fields& fields, const std::string& assignment);
void validate(const Fields& fields);

// The fields in declaration order without their sections, at any depth.
Fields leaves(const Fields& fields);

// Describes each field; the values in `options` are the defaults.
template <HasFields Options>
std::vector<FieldDescription> describe(Options options) {
  return describe(fields_of(options));
}

// Nested as the structs are. Infinities become the texts "inf" and "-inf", which parse back.
template <HasFields Options>
nlohmann::ordered_json to_json(Options options) {
  return to_json(fields_of(options));
}

// Sets the fields that `text` (YAML or JSON) names and keeps the others; `origin` names the text in
// errors, usually a file name.
template <HasFields Options>
void parse_yaml(Options& options, const std::string& text, const std::string& origin) {
  Options changed = options;
  parse_yaml(fields_of(changed), text, origin);
  options = std::move(changed);
}

template <HasFields Options>
void load_yaml(Options& options, const std::filesystem::path& path) {
  Options changed = options;
  load_yaml(fields_of(changed), path);
  options = std::move(changed);
}

// "mixer.d_state=16". Lists are written 1,2,3 or [1, 2, 3].
template <HasFields Options>
void set(Options& options, const std::string& assignment) {
  Options changed = options;
  set(fields_of(changed), assignment);
  options = std::move(changed);
}

// Checks the constraints of a struct that was filled in C++.
template <HasFields Options>
void validate(Options options) {
  validate(fields_of(options));
}

template <class T, class... Notes>
void FieldCollector::operator()(std::string_view name, T& value, const Notes&... notes) {
  constexpr bool numeric = std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                           std::is_same_v<T, std::vector<int64_t>> ||
                           std::is_same_v<T, std::vector<double>>;
  constexpr bool text =
      std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>;
  constexpr bool can_be_empty = text || (numeric && std::is_class_v<T>);
  static_assert(HasFields<T> || numeric || text || std::is_same_v<T, bool>,
                "an option is a bool, int64_t, double, std::string, a vector of the last three, or "
                "a struct with a static fields()");
  static_assert(numeric || (!std::is_same_v<Notes, Range> && ...), "Range is for numbers");
  static_assert(text || (!std::is_same_v<Notes, Choices> && ...), "Choices are for texts");
  static_assert(can_be_empty || (!std::is_same_v<Notes, Required> && ...),
                "Required is for texts and lists: other types always have a value");

  Field field;
  field.path = prefix_ + std::string(name);
  if constexpr (HasFields<T>)
    field.members = fields_of(value, field.path + ".");
  else
    field.storage = &value;
  (note(field, notes), ...);
  add(std::move(field));
}

}  // namespace hydramix
