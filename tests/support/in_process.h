// SPDX-License-Identifier: Apache-2.0
// The command within the process of the test, which loads LibTorch once: milliseconds in place of
// half a second.
#pragma once

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "support/command.h"

namespace hydramix::test {

// As run(), without a shell: words are separated by blanks, and single quotes keep them together.
inline Result run_here(const std::string& line) {
  std::vector<std::string> words{"hydramix"};
  bool quoted = false, open = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
      if (!open) words.emplace_back();
      open = true;
    } else if (c == ' ' && !quoted) {
      open = false;
    } else {
      if (!open) words.emplace_back();
      open = true;
      words.back() += c;
    }
  }
  std::vector<const char*> arguments;
  for (const auto& word : words) arguments.push_back(word.c_str());
  std::ostringstream errors;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = run_command_line(all_commands(), static_cast<int>(arguments.size()),
                                    arguments.data(), std::cout, errors);
  std::cout.flush();
  std::fflush(stdout);
  const std::string out = ::testing::internal::GetCapturedStdout();
  return {code, out, ::testing::internal::GetCapturedStderr() + errors.str()};
}

}  // namespace hydramix::test
