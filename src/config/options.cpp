// SPDX-License-Identifier: Apache-2.0
// The operations of options.h on type-erased fields: walking sections and naming keys. What a
// single value may be is decided in value.cpp.
#include "hydramix/options.h"

#include <algorithm>

#include "base/spelling.h"
#include "config/node.h"
#include "config/value.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

std::vector<std::string> names_of(const Fields& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name());
  return names;
}

// The field called `name` among `fields`, which are those of the section `prefix` ("mixer.").
const Field& find(const Fields& fields, const std::string& prefix, const std::string& name,
                  const std::string& where) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name() == name; });
  HYDRAMIX_CHECK_USAGE(found != fields.end(), where, ": unknown key '", prefix, name, "'.",
                       did_you_mean(name, names_of(fields)),
                       " Allowed keys here: ", join(names_of(fields)));
  return *found;
}

[[noreturn]] void fail_section(const Fields& members, const std::string& where,
                               const std::string& given) {
  throw UsageError(concat(where, ": got ", given, ", expected a section with the keys ",
                          join(names_of(members)), "."));
}

void assign_section(const Fields& fields, const std::string& prefix, const Node& given,
                    const std::string& origin) {
  if (given.kind == Node::Kind::kNull) return;  // an empty file, or a section with nothing in it
  if (given.kind != Node::Kind::kMap) {
    const std::string path = prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
    fail_section(fields, place(origin, given.line) + (path.empty() ? "" : ": " + path),
                 shown(given));
  }
  std::vector<const Field*> seen;
  for (std::size_t i = 0; i < given.keys.size(); ++i) {
    const Node& key = given.keys[i];
    const std::string where = place(origin, key.line);
    HYDRAMIX_CHECK_USAGE(key.kind == Node::Kind::kScalar, where, ": got ", shown(key),
                         " as a key, expected one of: ", join(names_of(fields)), ".");
    const Field& field = find(fields, prefix, key.text, where);
    HYDRAMIX_CHECK_USAGE(std::find(seen.begin(), seen.end(), &field) == seen.end(), where,
                         ": key '", field.path, "' is given twice. Remove one of them.");
    seen.push_back(&field);
    if (field.is_section())
      assign_section(field.members, field.path + ".", given.items[i], origin);
    else
      assign(field, given.items[i], origin);
  }
}

void append_leaves(const Fields& fields, Fields& out) {
  for (const Field& field : fields)
    if (field.is_section())
      append_leaves(field.members, out);
    else
      out.push_back(field);
}

bool is_field_name(const std::string& name) {
  return !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

}  // namespace

void FieldCollector::add(Field field) {
  HYDRAMIX_CHECK(is_field_name(field.path.substr(prefix_.size())), "the option '", field.path,
                 "' is declared with a name that is not of the form lower_case_1. Rename it.");
  for (const Field& other : fields)
    HYDRAMIX_CHECK(other.path != field.path, "the option '", field.path,
                   "' is declared twice. Rename one of them.");
  fields.push_back(std::move(field));
}

Fields leaves(const Fields& fields) {
  Fields out;
  append_leaves(fields, out);
  return out;
}

std::vector<FieldDescription> describe(const Fields& fields) {
  std::vector<FieldDescription> out;
  for (const Field& field : leaves(fields))
    out.push_back(
        {field.path, type_text(field), value_text(field), allowed_text(field), field.help});
  return out;
}

nlohmann::ordered_json to_json(const Fields& fields) {
  auto out = nlohmann::ordered_json::object();
  for (const Field& field : fields)
    out[field.name()] = field.is_section() ? to_json(field.members) : value_json(field);
  return out;
}

void parse_yaml(const Fields& fields, const std::string& text, const std::string& origin) {
  assign_section(fields, "", parse_document(text, origin), origin);
}

void load_yaml(const Fields& fields, const std::filesystem::path& path) {
  parse_yaml(fields, read_configuration(path), path.string());
}

void set(const Fields& fields, const std::string& assignment) {
  const std::string origin = "--set " + assignment;
  const auto equals = assignment.find('=');
  HYDRAMIX_CHECK_USAGE(equals != std::string::npos, origin,
                       ": expected KEY=VALUE. Add '=' and a value.");
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);

  const Fields* siblings = &fields;
  for (std::size_t begin = 0;;) {
    const auto end = std::min(path.find('.', begin), path.size());
    const std::string parent = path.substr(0, begin), name = path.substr(begin, end - begin);
    const Field& field = find(*siblings, parent, name, origin);
    if (end == path.size()) {
      if (field.is_section())
        fail_section(field.members, origin + ": " + field.path, "'" + text + "'");
      return assign(field, from_text(field, text, origin), origin);
    }
    HYDRAMIX_CHECK_USAGE(field.is_section(), origin, ": '", field.path, "' is ",
                         expected_text(field), ", it has no keys. Write --set ", field.path,
                         "=VALUE.");
    siblings = &field.members;
    begin = end + 1;
  }
}

void validate(const Fields& fields) {
  for (const Field& field : leaves(fields)) check(field);
}

}  // namespace hydramix
