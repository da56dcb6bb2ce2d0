// SPDX-License-Identifier: Apache-2.0
// Runs the built command, whose path is HYDRAMIX_COMMAND, or another program as a process.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "base/read_file.h"
#include "support/expect.h"

namespace hydramix::test {

struct Result {
  int code;
  std::string out, err;
};

// `environment`: assignments before the program.
inline Result run_program(const std::string& program, const std::string& arguments,
                          const std::string& environment = "") {
  TemporaryFolder folder;
  const auto out = folder / "out", err = folder / "err";
  const std::string command =
      environment + " " + program + " " + arguments + " >" + out.string() + " 2>" + err.string();
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

#ifdef HYDRAMIX_COMMAND
inline Result run(const std::string& arguments, const std::string& environment = "") {
  return run_program(HYDRAMIX_COMMAND, arguments, environment);
}
#endif

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace hydramix::test
