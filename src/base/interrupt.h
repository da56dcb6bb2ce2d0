// SPDX-License-Identifier: Apache-2.0
// Turns Ctrl-C, SIGTERM and SIGHUP, the closed terminal, into a flag that long work polls between
// its steps. A second signal ends the process at once. A run under nohup ignores SIGHUP.
#pragma once

namespace hydramix {

class Interrupt {
 public:
  // Starts recording signals and clears the flag. A nested object does neither.
  Interrupt();
  ~Interrupt();  // the outermost one restores the previous handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The recorded signal, or 0.
  static int signal();
};

}  // namespace hydramix
