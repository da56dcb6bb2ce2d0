// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a question that long work asks between its steps. The second signal ends
// the process at once.
#pragma once

namespace hydramix {

class Interrupt {
 public:
  // From now on signals are noted, and forgotten what came before; unless it is noted already by
  // work that this is a part of.
  Interrupt();
  ~Interrupt();  // the outermost one: from now on signals do what they did before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The signal that came, or 0.
  static int signal();
};

}  // namespace hydramix
