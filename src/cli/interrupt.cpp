// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

namespace hydramix {
namespace {

volatile std::sig_atomic_t received = 0;

}  // namespace

InterruptWatch::InterruptWatch() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = [](int signal) { received = signal; };
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
}

InterruptWatch::~InterruptWatch() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
}

int InterruptWatch::signal() const { return received; }

}  // namespace hydramix
