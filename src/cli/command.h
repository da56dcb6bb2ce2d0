// SPDX-License-Identifier: Apache-2.0
// The subcommands of hydramix. A command is a name, a summary, a struct of options (see
// hydramix/options.h) and a function:
//
//   int run_check(const CheckOptions& options);  // prints to std::cout; returns the exit code
//   make_command<CheckOptions>("check", "compare fast paths with dense matrices", run_check)
//
// Flags, --config, --set, --print-config, --help and docs/cli.md follow from the options. The field
// d_state is the flag --d-state, in a section --mixer.d-state; a bool is --all, or --no-all to
// switch it off, or --all true and --all=false; a list is --sizes 1,2,3 and may be repeated. Later
// sources win: defaults, then --config, then --set, then flags and arguments. A command with a
// `config_argument` takes a --config file as its first argument; help shows it under that name.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "hydramix/options.h"

namespace hydramix {

// The options of one call, at their defaults, and the function that takes them.
struct Invocation {
  Fields fields;
  std::function<int()> run;
  // Called before run() with a function that applies the command line to other fields of the same
  // options; may be empty.
  std::function<void(const std::function<void(const Fields&)>&)> take_choices = {};
};

struct Command {
  std::string name, summary, details, config_argument;
  std::function<Invocation()> prepare;
  bool needs_words = false;  // without any, it prints its usage: the defaults alone mean long work
};

// Options may have a member std::function<void(Options&)> choose. It applies the command line to
// other options, for example to those of a file, so that given values and defaults are not
// confused.
template <HasFields Options>
Command make_command(std::string name, std::string summary, std::function<int(const Options&)> run,
                     std::string details = "") {
  auto prepare = [run = std::move(run)] {
    auto options = std::make_shared<Options>();
    Invocation invocation{fields_of(*options), [options, run] { return run(*options); }};
    if constexpr (requires { options->choose; })
      invocation.take_choices = [options](const std::function<void(const Fields&)>& apply) {
        options->choose = [apply](Options& other) { apply(fields_of(other)); };
      };
    return invocation;
  };
  return {std::move(name), std::move(summary), std::move(details), "", std::move(prepare), false};
}

// Runs the command of argv and returns the exit code: 0 done, 1 failed, 2 wrong usage. Help goes to
// `out`, errors to `err`; never throws.
int run_command_line(const std::vector<Command>& commands, int argc, const char* const* argv,
                     std::ostream& out, std::ostream& err);

inline constexpr const char* kOutOfMemory =
    "out of memory. Use smaller sizes, or a machine with more memory.";
bool is_out_of_memory(const std::exception& error);

}  // namespace hydramix
