// SPDX-License-Identifier: Apache-2.0
#include "base/interrupt.h"

#include <csignal>

namespace hydramix {
namespace {

volatile std::sig_atomic_t received = 0;
struct sigaction before_int, before_term;
int depth = 0;  // nesting of Interrupt objects

}  // namespace

Interrupt::Interrupt() {
  if (depth++ > 0) return;
  received = 0;
  struct sigaction action {};
  action.sa_handler = [](int number) { received = number; };
  // SA_RESETHAND: a second signal has its default action and ends the process. SA_RESTART: reads
  // and writes in progress continue.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &before_int);
  sigaction(SIGTERM, &action, &before_term);
}

Interrupt::~Interrupt() {
  if (--depth > 0) return;
  sigaction(SIGINT, &before_int, nullptr);
  sigaction(SIGTERM, &before_term, nullptr);
}

int Interrupt::signal() { return received; }

}  // namespace hydramix
