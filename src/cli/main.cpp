// SPDX-License-Identifier: Apache-2.0
// hydramix COMMAND [options]
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>

#include "base/cores.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "hydramix/large_pages.h"
#include "hydramix/torch_compat.h"
#include "io/mapped_file.h"

namespace {

// `hydramix ... | head`: a reader that has left is not an error.
bool reader_has_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

std::terminate_handler usual_end = nullptr;

// LibTorch and OpenMP allocate in functions that must not throw; without memory the process ends
// there, with a message and an exit code like any other failure, instead of an abort.
void end_process() {
  bool memory = false;
  if (const auto error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& thrown) {
      memory = hydramix::is_out_of_memory(thrown);
    } catch (...) {
    }
  }
  if (!memory) usual_end();  // prints the exception and aborts
  for (const char* part : {"error: ", hydramix::kOutOfMemory, "\n"}) {
    [[maybe_unused]] const auto ignored = write(STDERR_FILENO, part, std::strlen(part));
  }
  _exit(1);
}

// Runs before the constructors of the libraries, which allocate too.
void before_libraries() { usual_end = std::set_terminate(end_process); }
[[gnu::section(".preinit_array"), gnu::used]] void (*run_before_libraries)() = before_libraries;

// The system extends the stack when it is used, and kills the process where there is no memory for
// that. Using it now leaves failures to allocations, which can be reported.
void extend_stack() {
  volatile char used[1 << 20];
  for (std::size_t i = 0; i < sizeof used; i += 4096) used[i] = 0;
}

}  // namespace

int main(int argc, char** argv) {
  extend_stack();
  hydramix::name_mapped_file_on_fault();
  // Without this a closed pipe would kill a training run before it has saved.
  std::signal(SIGPIPE, SIG_IGN);
  // LibTorch uses half of the hardware threads, whether or not they share cores.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) torch::set_num_threads(hydramix::core_count());
  hydramix::use_large_pages();
  // LibTorch examines the CPU when it first computes. Short of memory at that moment it would
  // choose its plainest kernels, whose results differ in their last bits.
  torch::zeros({1}).add_(1);
  try {
    const int status =
        hydramix::run_command_line(hydramix::all_commands(), argc, argv, std::cout, std::cerr);
    std::cout.flush();
    // An earlier write may have failed even if this one succeeds.
    if ((std::cout && std::ferror(stdout) == 0) || reader_has_left()) return status;
    std::cerr << "error: the output could not be written. Is the disk full?" << std::endl;
  } catch (const std::exception& error) {  // before the command ran
    std::cerr << "error: " << error.what() << std::endl;
  }
  return 1;
}
