// SPDX-License-Identifier: Apache-2.0
// Reads the command line. CLI11 finds the flags and hands over every value as text; values are then
// parsed by the same code as --set and YAML, so that all sources accept the same things and fail
// with the same words.
#include "cli/command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <ostream>

#include "base/spelling.h"
#include "cli/help.h"
#include "config/value.h"
#include "hydramix/error.h"

#ifndef HYDRAMIX_VERSION
#error "define HYDRAMIX_VERSION as a string, for example -DHYDRAMIX_VERSION='\"1.0.0\"'"
#endif

namespace hydramix {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void fail_unknown_option(const std::string& word, const Words& known,
                                      const std::string& help_command) {
  const std::string option = word.substr(0, word.find('='));
  // Compared without the dashes: they would make all short words look alike.
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

// The command line of one command.
class Parser {
 public:
  // `fields` are leaves whose path is their spelling: what errors call them is what the user types.
  Parser(const Command& command, const Fields& fields)
      : command_(command), fields_(fields), help_command_("hydramix help " + command.name) {
    app_.set_help_flag();  // CLI11 would print its own
    app_.allow_extras();   // unknown options and arguments are sorted out here
    help_ = app_.add_flag("-h,--help");
    print_config_ = app_.add_flag("--print-config");
    config_ = add_valued("--config");
    set_ = add_valued("--set");
    known_ = {"--help", "--print-config", "--config", "--set"};
    for (const Field& field : fields_) {
      if (field.positional) {
        options_.push_back(nullptr);
        continue;
      }
      known_.push_back(field.path);
      if (std::holds_alternative<bool*>(field.storage)) {
        known_.push_back("--no-" + field.path.substr(2));
        options_.push_back(app_.add_flag(field.path + ",!" + known_.back()));
        options_.back()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      } else {
        options_.push_back(add_valued(field.path));
      }
    }
  }

  void parse(const Words& given) {
    Words words, arguments;
    const auto end = std::find(given.begin(), given.end(), "--");
    for (auto word = given.begin(); word != end; ++word) {
      if (!word->starts_with("--") || word->find('=') != word->size() - 1) {
        words.push_back(*word);
        continue;
      }
      // CLI11 would take "--comment=" for a missing value and eat the next word.
      words.push_back(word->substr(0, word->size() - 1));
      const CLI::Option* option = app_.get_option_no_throw(words.back());
      HYDRAMIX_CHECK_USAGE(option == nullptr || option->get_items_expected_max() > 0, words.back(),
                           ": got '', expected true or false.");
      words.emplace_back();
    }
    try {
      app_.parse(Words(words.rbegin(), words.rend()));
    } catch (const CLI::ArgumentMismatch&) {  // only the last word can lack its value
      fail_missing_value(words.back());
    } catch (const CLI::ParseError& error) {
      throw UsageError(error.what());
    }
    if (wants_help()) return;
    for (const std::string& word : app_.remaining()) {
      if (word.size() > 1 && word.starts_with('-'))
        fail_unknown_option(word, known_, help_command_);
      arguments.push_back(word);
    }
    if (end != given.end()) arguments.insert(arguments.end(), end + 1, given.end());
    if (!command_.config_argument.empty() && !arguments.empty()) {
      config_files_.push_back(arguments.front());
      arguments.erase(arguments.begin());
    }
    distribute(arguments);
  }

  bool wants_help() const { return help_->count() > 0; }
  bool wants_config() const { return print_config_->count() > 0; }

  // Later sources win: the files, then --set, then flags and arguments.
  void apply(const Fields& sections) const {
    for (const std::string& path : config_files_) load_yaml(sections, path);
    for (const std::string& path : config_->results()) load_yaml(sections, path);
    for (const std::string& assignment : set_->results()) set(sections, assignment);
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (fields_[i].positional)
        assign_arguments(fields_[i], arguments_[i]);
      else
        assign_flag(fields_[i], options_[i]->results());
  }

 private:
  CLI::Option* add_valued(const std::string& flag) {
    return app_.add_option(flag)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
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
      while (field.positional && next != arguments.end() && (mine.empty() || field.is_list()))
        mine.push_back(*next++);
    }
    HYDRAMIX_CHECK_USAGE(next == arguments.end(), "unexpected argument '", *next, "'\nRun '",
                         help_command_, "' for what ", command_.name, " takes.");
  }

  // As they stand: unlike flags, arguments are not split at commas, which file names may hold.
  static void assign_arguments(const Field& field, const Words& words) {
    if (words.empty()) return;
    assign(field, field.is_list() ? sequence_node(words) : scalar_node(words.front()), "");
  }

  // A flag given several times: lists grow; of other values the last counts, but all are checked.
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
  CLI::App app_;
  CLI::Option *help_, *print_config_, *config_, *set_;
  std::vector<CLI::Option*> options_;  // one for each field, null for arguments
  std::vector<Words> arguments_;       // one for each field, empty for flags
  Words known_;
  Words config_files_;  // given as an argument
};

int run_one(const Command& command, const Words& words, std::ostream& out) {
  const Invocation invocation = command.prepare();
  Fields fields = leaves(invocation.fields);
  for (Field& field : fields) field.path = spelled(field);

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

constexpr const char* kOutOfMemory =
    "out of memory. Use smaller sizes, or a machine with more memory.";

// LibTorch appends a stack of frames to its messages; users need the sentence before it.
std::string first_part(const std::string& message) {
  return message.substr(
      0, std::min(message.find("\nException raised from "), message.find("\nframe #")));
}

}  // namespace

int run_command_line(const std::vector<Command>& commands, int argc, const char* const* argv,
                     std::ostream& out, std::ostream& err) {
  try {
    return dispatch(commands, Words(argv + std::min(argc, 1), argv + argc), out);
  } catch (const UsageError& error) {
    err << "error: " << error.what() << std::endl;
    return 2;
  } catch (const std::bad_alloc&) {
    err << "error: " << kOutOfMemory << std::endl;
  } catch (const std::exception& error) {
    // LibTorch's allocators throw errors of their own.
    const std::string message = first_part(error.what());
    const bool memory = message.find("allocate memory") != std::string::npos ||
                        message.find("not enough memory") != std::string::npos ||
                        message.find("out of memory") != std::string::npos;
    err << "error: " << (memory ? kOutOfMemory : message.c_str()) << std::endl;
  } catch (...) {
    err << "error: an exception of unknown type" << std::endl;
  }
  return 1;
}

}  // namespace hydramix
