// SPDX-License-Identifier: Apache-2.0
// Reads the command line, runs the command, and turns its exceptions into exit codes.
#include "cli/command.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <new>
#include <ostream>
#include <string_view>
#include <system_error>

#include "base/spelling.h"
#include "cli/help.h"
#include "config/value.h"
#include "hydramix/error.h"
#include "ops/onednn.h"

#ifndef HYDRAMIX_VERSION
#error "define HYDRAMIX_VERSION as a string, for example -DHYDRAMIX_VERSION='\"1.0.0\"'"
#endif

namespace hydramix {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void fail_unknown_option(const std::string& word, const Words& known,
                                      const std::string& help_command) {
  const std::string option = word.substr(0, word.find('='));
  // Compared without the dashes, which would make all short words look alike.
  Words bare;
  for (const auto& flag : known) bare.push_back(flag.substr(2));
  const auto start = std::min(option.find_first_not_of('-'), option.size());
  const std::string guess = nearest(option.substr(start), bare);
  const std::string suggestion = guess.empty() ? "" : " (did you mean --" + guess + "?)";
  throw UsageError(
      concat("unknown option ", option, suggestion, "\nRun '", help_command, "' for all of them."));
}

const Command& find_command(const std::vector<Command>& commands, const std::string& name) {
  Words names;
  for (const Command& command : commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  const std::string guess = nearest(name, names);
  throw UsageError(concat("unknown command '", name, "'",
                          guess.empty() ? "" : " (did you mean '" + guess + "'?)",
                          ". Commands: ", join(names), "."));
}

// The leaves of these fields, whose path is their spelling on the command line.
Fields spelled_leaves(const Fields& sections) {
  Fields fields = leaves(sections);
  for (Field& field : fields) field.path = spelled(field);
  return fields;
}

// The command line of one command. It finds the flags and leaves their values as text, which is
// parsed by the same code as --set and YAML, so that all sources accept the same values and fail
// with the same messages.
class Parser {
 public:
  // `fields` are leaves whose path is their spelling, so that errors name them as the user does.
  Parser(const Command& command, const Fields& fields)
      : command_(command), fields_(fields), help_command_("hydramix help " + command.name) {
    known_ = {"--help", "--print-config", "--config", "--set"};
    for (const Field& field : fields_) {
      HYDRAMIX_CHECK(std::find(known_.begin(), known_.end(), flag_of(field)) == known_.end(),
                     command.name, ": the option ", flag_of(field),
                     " is declared twice, or is one that every command has. Rename the field.");
      known_.push_back(flag_of(field));
      if (is_bool(field)) known_.push_back(negated(field));
    }
  }

  void parse(const Words& words) {
    Words arguments, unknown;
    for (auto word = words.begin(); word != words.end(); ++word) {
      if (*word == "--") {
        arguments.insert(arguments.end(), word + 1, words.end());
        break;
      }
      if (word->size() < 2 || !word->starts_with('-'))
        arguments.push_back(*word);
      else if (*word == "-h")
        help_ = true;
      else if (!take_option(word, words.end()))
        unknown.push_back(*word);
    }
    if (help_) return;
    if (!unknown.empty()) fail_unknown_option(unknown.front(), known_, help_command_);
    if (!command_.config_argument.empty() && !arguments.empty()) {
      config_files_.insert(config_files_.begin(), arguments.front());
      arguments.erase(arguments.begin());
    }
    distribute(arguments);
  }

  bool wants_help() const { return help_; }
  bool wants_config() const { return print_config_; }

  // Later sources win: the files, then --set, then flags and arguments.
  void apply(const Fields& sections) const {
    for (const std::string& path : config_files_) load_yaml(sections, path);
    for (const std::string& assignment : assignments_) set(sections, assignment);
    const Fields targets = spelled_leaves(sections);
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (const auto found = values_.find(targets[i].path); found != values_.end())
        assign_flag(targets[i], found->second);
      else if (targets[i].positional)
        assign_arguments(targets[i], arguments_[i]);
  }

 private:
  static bool is_bool(const Field& field) { return std::holds_alternative<bool*>(field.storage); }
  // An argument may also be given as a flag of its name: MODEL or --model.
  static std::string flag_of(const Field& field) {
    if (!field.positional) return field.path;
    std::string flag = "--" + field.path;
    for (char& c : flag) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
    return flag;
  }
  static std::string negated(const Field& field) { return "--no-" + field.path.substr(2); }

  // Reads the option at `word`, and its value: after '=', or the next word whatever it looks like.
  // False if there is no such option.
  bool take_option(Words::const_iterator& word, Words::const_iterator end) {
    const auto equals = word->find('=');
    const std::string flag = word->substr(0, equals);
    const auto value = [&]() -> std::string {
      if (equals != std::string::npos) return word->substr(equals + 1);
      if (word + 1 == end) fail_missing_value(flag);
      return *++word;
    };
    const auto check_no_value = [&] {
      HYDRAMIX_CHECK_USAGE(equals == std::string::npos, flag, " takes no value; got ", *word, ".");
    };
    if (flag == "--help" || flag == "--print-config") {
      check_no_value();
      (flag == "--help" ? help_ : print_config_) = true;
      return true;
    }
    if (flag == "--config" || flag == "--set") {
      (flag == "--config" ? config_files_ : assignments_).push_back(value());
      return true;
    }
    for (const Field& field : fields_) {
      if (is_bool(field) && flag == negated(field)) {
        check_no_value();
        values_[field.path].push_back("false");
        return true;
      }
      if (flag != flag_of(field)) continue;
      // After a bare flag only true and false are its value; any other word is an argument.
      const bool bare = is_bool(field) && equals == std::string::npos &&
                        (word + 1 == end || (word[1] != "true" && word[1] != "false"));
      values_[field.path].push_back(bare ? "true" : value());
      return true;
    }
    return false;
  }

  [[noreturn]] void fail_missing_value(const std::string& flag) const {
    for (const Field& field : fields_)
      HYDRAMIX_CHECK_USAGE(field.path != flag, flag, " needs a value: ", expected_text(field), ".");
    throw UsageError(concat(flag, " needs a value; '", help_command_, "' shows which."));
  }

  // Arguments go to the positional fields in order, one each; a list takes all that remain.
  void distribute(const Words& arguments) {
    auto next = arguments.begin();
    for (const Field& field : fields_) {
      Words& mine = arguments_.emplace_back();
      if (values_.contains(field.path)) continue;  // given as a flag
      while (field.positional && next != arguments.end() && (mine.empty() || field.is_list()))
        mine.push_back(*next++);
    }
    HYDRAMIX_CHECK_USAGE(next == arguments.end(), "unexpected argument '", *next, "'\nRun '",
                         help_command_, "' for what ", command_.name, " takes.");
  }

  // Unlike flags, arguments are not split at commas, which file names may contain.
  static void assign_arguments(const Field& field, const Words& words) {
    if (words.empty()) return;
    assign(field, field.is_list() ? sequence_node(words) : scalar_node(words.front()), "");
  }

  // A repeated flag extends a list. Of other values the last counts, but all are checked.
  static void assign_flag(const Field& field, const Words& words) {
    Node all = sequence_node({});
    for (const std::string& word : words) {
      const Node node = from_text(field, word, field.path);
      assign(field, node, "");
      all.items.insert(all.items.end(), node.items.begin(), node.items.end());
    }
    if (field.is_list() && words.size() > 1) assign(field, all, "");
  }

  const Command& command_;
  const Fields& fields_;
  std::string help_command_;
  Words known_;
  bool help_ = false, print_config_ = false;
  Words config_files_, assignments_;     // of --config and --set
  std::map<std::string, Words> values_;  // by flag
  std::vector<Words> arguments_;         // one for each field, empty for flags
};

int run_one(const Command& command, const Words& words, std::ostream& out) {
  const Invocation invocation = command.prepare();
  const Fields fields = spelled_leaves(invocation.fields);
  HYDRAMIX_CHECK_USAGE(!words.empty() || !command.needs_words, command.name,
                       ": nothing is given.\n", command_usage(command), "\nRun 'hydramix help ",
                       command.name, "' for all options.");
  Parser parser(command, fields);
  parser.parse(words);
  if (parser.wants_help()) {
    out << command_help(command) << std::flush;
    return 0;
  }
  parser.apply(invocation.fields);
  if (parser.wants_config()) {
    out << to_json(invocation.fields).dump(2) << std::endl;
    return 0;
  }
  validate(fields);
  if (invocation.take_choices)
    invocation.take_choices([&parser](const Fields& other) { parser.apply(other); });
  return invocation.run();
}

int run_help(const std::vector<Command>& commands, const Words& words, std::ostream& out) {
  HYDRAMIX_CHECK_USAGE(words.size() <= 1, "help: got ", words.size(),
                       " words, expected one command, or --markdown.");
  if (words.empty() || words[0] == "help" || words[0] == "--help")
    out << program_help(commands);
  else if (words[0] == "--markdown")
    out << markdown_help(commands);
  else if (words[0].starts_with('-'))
    fail_unknown_option(words[0], {"--markdown"}, "hydramix help");
  else
    out << command_help(find_command(commands, words[0]));
  out << std::flush;
  return 0;
}

int dispatch(const std::vector<Command>& commands, Words words, std::ostream& out) {
  if (words.empty()) return run_help(commands, {}, out);
  const std::string first = words.front();
  words.erase(words.begin());
  if (first == "help" || first == "--help" || first == "-h") return run_help(commands, words, out);
  if (first == "--version") {
    HYDRAMIX_CHECK_USAGE(words.empty(), "--version takes no arguments; got '", words[0], "'.");
    out << "hydramix " HYDRAMIX_VERSION << std::endl;
    return 0;
  }
  if (first.starts_with('-')) fail_unknown_option(first, {"--help", "--version"}, "hydramix help");
  return run_one(find_command(commands, first), words, out);
}

// LibTorch appends a stack trace to its messages. Users need the sentence before it.
std::string first_part(const std::string& message) {
  return message.substr(
      0, std::min(message.find("\nException raised from "), message.find("\nframe #")));
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const Error*>(&error) != nullptr) return false;  // its message says what failed
  // A thread cannot be started without memory for its stack; files and folders fail with ENOMEM.
  if (const auto* system = dynamic_cast<const std::system_error*>(&error))
    return system->code() == std::errc::not_enough_memory ||
           system->code() == std::errc::resource_unavailable_try_again;
  // LibTorch's allocators throw their own errors.
  const std::string_view message = error.what();
  for (const char* part : {"allocate memory", "not enough memory", "out of memory"})
    if (message.find(part) != message.npos) return true;
  return false;
}

int run_command_line(const std::vector<Command>& commands, int argc, const char* const* argv,
                     std::ostream& out, std::ostream& err) {
  try {
    avoid_onednn();
    return dispatch(commands, Words(argv + std::min(argc, 1), argv + argc), out);
  } catch (const UsageError& error) {
    err << "error: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error))  // first: what follows allocates
      err << "error: " << kOutOfMemory << std::endl;
    else
      err << "error: " << first_part(error.what()) << std::endl;
  } catch (...) {
    err << "error: an exception of unknown type" << std::endl;
  }
  return 1;
}

}  // namespace hydramix
