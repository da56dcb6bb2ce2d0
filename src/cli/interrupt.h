// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a question instead of a sudden end, for work that can stop at a good place.
// A second signal ends the program at once.
#pragma once

#include <csignal>

namespace hydramix {

// While one of these lives. Not more than one at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();  // the signals do what they did before
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const { return signal() != 0; }
  int signal() const;
  int exit_code() const { return 128 + signal(); }  // as shells have it

 private:
  struct sigaction old_interrupt_ = {}, old_terminate_ = {};
};

}  // namespace hydramix
