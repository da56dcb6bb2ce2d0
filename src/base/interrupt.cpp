// SPDX-License-Identifier: Apache-2.0
#include "base/interrupt.h"

#include <csignal>
#include <cstddef>
#include <iterator>

namespace hydramix {
namespace {

volatile std::sig_atomic_t received = 0;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction before[std::size(kSignals)];
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
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    // nohup ignores SIGHUP, and the run is to go on.
    const bool is_nohup = kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN;
    if (!is_nohup) sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  if (--depth > 0) return;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

int Interrupt::signal() { return received; }

}  // namespace hydramix
