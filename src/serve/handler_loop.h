// SPDX-License-Identifier: Apache-2.0
// The loop of a thread that runs the handlers of an io_context.
#pragma once

#include <boost/asio/io_context.hpp>

#include <cstdio>
#include <exception>

namespace hydramix::serve {

// Until the context is stopped. An exception, such as for a lack of memory, ends its connection and
// not the thread.
inline void run_handlers(boost::asio::io_context& io) {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "a connection was given up: %s\n", error.what());
    }
  }
}

}  // namespace hydramix::serve
