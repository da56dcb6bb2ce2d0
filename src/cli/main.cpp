// SPDX-License-Identifier: Apache-2.0
// hydramix COMMAND [options]
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>

#include "cli/command.h"
#include "cli/commands.h"

namespace {

// `hydramix ... | head`: the reader has seen enough, which is no error.
bool reader_has_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Without this a closed pipe kills the process, and a training run with it, before it has saved.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const int status =
        hydramix::run_command_line(hydramix::all_commands(), argc, argv, std::cout, std::cerr);
    std::cout.flush();
    if (std::cout || reader_has_left()) return status;
    std::cerr << "error: the output could not be written. Is the disk full?" << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
  }
  return 1;
}
