// SPDX-License-Identifier: Apache-2.0
// Signals become a flag while an Interrupt lives, and have their old effect after it.
#include "base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hydramix {
namespace {

int handled = 0;  // by the handler of the program
void count_signal(int) { ++handled; }

TEST(Interrupt, RecordsEverySignalThatAsksToStop) {
  const auto usual = std::signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const Interrupt interrupt;
    EXPECT_EQ(Interrupt::signal(), 0) << "the flag of an earlier one";
    std::raise(number);
    EXPECT_EQ(Interrupt::signal(), number);
    const Interrupt nested;
    EXPECT_EQ(Interrupt::signal(), number) << "a nested one keeps the flag";
  }
  std::signal(SIGHUP, usual);
}

TEST(Interrupt, RestoresTheHandlersOfTheProgram) {
  const auto usual = std::signal(SIGTERM, count_signal);
  {
    const Interrupt interrupt;
    std::raise(SIGTERM);
  }
  EXPECT_EQ(handled, 0);
  std::raise(SIGTERM);
  EXPECT_EQ(handled, 1);
  std::signal(SIGTERM, usual);
}

TEST(Interrupt, ARunUnderNohupGoesOn) {
  const auto usual = std::signal(SIGHUP, SIG_IGN);  // as nohup does
  {
    const Interrupt interrupt;
    std::raise(SIGHUP);
    EXPECT_EQ(Interrupt::signal(), 0);
  }
  std::signal(SIGHUP, usual);
}

}  // namespace
}  // namespace hydramix
