// SPDX-License-Identifier: Apache-2.0
// Text wrapping and tables for help. All text about an option comes from its declaration.
#include "cli/help.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "config/value.h"

namespace hydramix {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kTextColumn = 28;

struct StandardOption {
  const char *flag, *placeholder, *help;
};
constexpr StandardOption kStandardOptions[] = {
    {"--config", "FILE", "read options from a YAML or JSON file; may be repeated"},
    {"--set", "KEY=VALUE", "set one option, for example a.b=c; may be repeated"},
    {"--print-config", "", "print the resulting options as JSON and stop"},
    {"--help", "", "print this help and stop"},
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

bool is_bool(const Field& field) { return std::holds_alternative<bool*>(field.storage); }

// Fills words into lines; every line after the first begins with `indent` spaces. Keeps line breaks
// and leading blanks of the text, so that details can show examples.
std::string wrapped(const std::string& text, std::size_t column, std::size_t indent) {
  std::ostringstream out;
  std::istringstream lines(text);
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    if (!first) out << "\n" << std::string(line.empty() ? 0 : indent, ' ');
    std::size_t used = first ? column : indent;
    const auto blanks = std::min(line.find_first_not_of(' '), line.size());
    out << line.substr(0, blanks);
    used += blanks;
    std::istringstream words(line);
    bool line_start = true;
    for (std::string word; words >> word; line_start = false) {
      if (!line_start && used + 1 + word.size() > kWidth) {
        out << "\n" << std::string(indent + blanks, ' ') << word;
        used = indent + blanks + word.size();
      } else {
        out << (line_start ? "" : " ") << word;
        used += (line_start ? 0 : 1) + word.size();
      }
    }
  }
  return out.str();
}

// "  left      right", with the right side wrapped in its column.
std::string row(const std::string& left, const std::string& right) {
  std::string out = "  " + left;
  if (out.size() + 2 > kTextColumn) out += "\n";
  const std::size_t used = out.back() == '\n' ? 0 : out.size();
  out.append(kTextColumn - used, ' ');
  return out + wrapped(right, kTextColumn, kTextColumn) + "\n";
}

// "--d-state INTEGER", "--[no-]shuffle", "FILES..."
std::string synopsis(const Field& field) {
  if (field.positional) return spelled(field) + (field.is_list() ? "..." : "");
  if (is_bool(field)) {
    const bool on_by_default = *std::get<bool*>(field.storage);
    return on_by_default ? "--[no-]" + spelled(field).substr(2) : spelled(field);
  }
  std::string type = type_text(field);
  const bool is_list = type.starts_with("list of ");
  if (is_list) type = type.substr(8, type.size() - 9);  // "list of integers" -> "integer"
  return spelled(field) + " " + upper(type) + (is_list ? ",..." : "");
}

std::string help_text(const Field& field) {
  std::vector<std::string> notes;
  // A default satisfies what is required.
  if (field.required && is_empty(field)) notes.push_back("required");
  const std::string allowed = allowed_text(field);
  if (!allowed.empty()) notes.push_back((field.choices ? "one of: " : "") + allowed);
  if (!is_empty(field)) notes.push_back("default: " + value_text(field));
  std::string text = field.help;
  for (std::size_t i = 0; i < notes.size(); ++i) text += (i == 0 ? " [" : "; ") + notes[i];
  return notes.empty() ? text : text + "]";
}

std::string usage(const Command& command, const Fields& fields) {
  std::string line = "hydramix " + command.name + " [options]";
  if (!command.config_argument.empty()) line += " [" + command.config_argument + "]";
  for (const Field& field : fields)
    if (field.positional)
      line += field.required ? " " + synopsis(field) : " [" + synopsis(field) + "]";
  return line;
}

// Escapes a table cell: a bar would end it, and Markdown would take <x> for HTML.
std::string cell(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '|' || c == '<' || c == '*') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

}  // namespace

std::string spelled(const Field& field) {
  if (field.positional) return upper(field.path);
  std::string flag = "--" + field.path;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string program_help(const std::vector<Command>& commands) {
  std::string out = "usage: hydramix COMMAND [options]\n\ncommands:\n";
  for (const Command& command : commands) out += row(command.name, command.summary);
  return out + "\nother:\n" + row("help COMMAND", "the options of one command") +
         row("help --markdown", "the options of all commands, as docs/cli.md") +
         row("--version", "print the version");
}

std::string command_usage(const Command& command) {
  const Invocation invocation = command.prepare();
  std::string out = "usage: " + wrapped(usage(command, leaves(invocation.fields)), 7, 9) + "\n\n" +
                    wrapped(command.summary, 0, 0) + "\n";
  if (!command.details.empty()) out += "\n" + wrapped(command.details, 0, 0) + "\n";
  return out;
}

std::string command_help(const Command& command) {
  const Invocation invocation = command.prepare();
  const Fields fields = leaves(invocation.fields);
  std::string out = command_usage(command);

  std::string arguments, options;
  if (!command.config_argument.empty())
    arguments += row(command.config_argument, "a file of options, read before --config");
  for (const Field& field : fields)
    (field.positional ? arguments : options) += row(synopsis(field), help_text(field));
  if (!arguments.empty()) out += "\narguments:\n" + arguments;
  if (!options.empty()) out += "\noptions:\n" + options;
  out += "\ncommon options:\n";
  for (const auto& [flag, placeholder, help] : kStandardOptions)
    out += row(std::string(flag) + (*placeholder ? " " : "") + placeholder, help);
  return out;
}

std::string markdown_help(const std::vector<Command>& commands) {
  std::ostringstream out;
  out << "# Command line\n\n"
         "Generated by `hydramix help --markdown` from the declarations of the options; do not "
         "edit by hand.\n\n"
         "Each command also takes:\n\n"
         "| flag | help |\n| --- | --- |\n";
  for (const auto& [flag, placeholder, help] : kStandardOptions)
    out << "| `" << flag << (*placeholder ? " " : "") << placeholder << "` | " << help << " |\n";
  out << "\nLater sources win: defaults, `--config`, `--set`, then flags and arguments. In files "
         "and in\n`--set` an option is called as its flag is, with `_` for `-`: `--d-state` is "
         "`d_state`;\na section's option has a dotted flag and is a key of that section. An "
         "argument may also be\n"
         "given as a flag: `MODEL` as `--model`.\n";

  for (const Command& command : commands) {
    const Invocation invocation = command.prepare();
    const Fields fields = leaves(invocation.fields);
    out << "\n## " << command.name << "\n\n" << command.summary << "\n";
    if (!command.details.empty()) out << "\n" << command.details << "\n";
    out << "\n```\n" << usage(command, fields) << "\n```\n";
    if (fields.empty()) continue;
    out << "\n| flag | type | default | allowed | help |\n| --- | --- | --- | --- | --- |\n";
    for (const Field& field : fields)
      out << "| `" << (is_bool(field) ? synopsis(field) : spelled(field)) << "` | "
          << type_text(field) << " | "
          << (field.required && is_empty(field) ? "required" : cell(code(value_text(field))))
          << " | " << cell(allowed_text(field)) << " | " << cell(field.help) << " |\n";
  }
  return out.str();
}

}  // namespace hydramix
