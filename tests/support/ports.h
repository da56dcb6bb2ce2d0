// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hydramix::test {

// A local port that is free, and stays so: it lies below the range from which the kernel gives
// ports to connections, and tests that run at the same time begin to search at different places.
// It is also among those that SLURM's jobs get (dist/launch_environment.cpp).
inline int free_port() {
  constexpr int kFirst = 12000, kCount = 16000;
  static int next = getpid() * 61;
  for (int attempt = 0; attempt < kCount; ++attempt) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(kFirst + next++ % kCount));
    const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    const bool is_free =
        bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(descriptor);
    if (is_free) return ntohs(address.sin_port);
  }
  ADD_FAILURE() << "no port is free";
  return 0;
}

}  // namespace hydramix::test
