// SPDX-License-Identifier: Apache-2.0
// Gloo. Each rank listens at one address: that of the interface GLOO_SOCKET_IFNAME if it is set,
// else the local address from which this machine reaches rank 0 (the loopback on one machine).
// Gloo's own choice, the host name, is 127.0.1.1 on many systems.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO  // without it c10d's header is empty
#endif
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/quotes.h"
#include "dist/process_group.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// The local address of an unused datagram socket to `host`, in numbers; empty on failure.
std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  std::string address;
  for (const addrinfo* a = found; a != nullptr && address.empty(); a = a->ai_next) {
    const int descriptor = socket(a->ai_family, SOCK_DGRAM, 0);
    if (descriptor < 0) continue;
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    char text[NI_MAXHOST];
    auto* end = reinterpret_cast<sockaddr*>(&local);
    if (connect(descriptor, a->ai_addr, a->ai_addrlen) == 0 &&
        getsockname(descriptor, end, &length) == 0 &&
        getnameinfo(end, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      address = text;
    close(descriptor);
  }
  freeaddrinfo(found);
  return address;
}

auto listening_device(const GroupOptions& options) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0')
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  const std::string address = address_towards(options.master_address);
  HYDRAMIX_CHECK(!address.empty(), "MASTER_ADDR=", in_quotes(options.master_address),
                 " cannot be resolved or reached. Set it to rank 0's machine, or "
                 "GLOO_SOCKET_IFNAME to the network interface to use.");
  const bool loopback = address.starts_with("127.") || address == "::1";
  HYDRAMIX_CHECK(options.one_machine || !loopback, "rank ", options.rank,
                 ": MASTER_ADDR=", in_quotes(options.master_address), " is the local address ",
                 address,
                 " here, where other machines cannot connect. Set MASTER_ADDR to the address "
                 "of a network, or GLOO_SOCKET_IFNAME to its interface.");
  return c10d::ProcessGroupGloo::createDeviceForHostname(address);
}

}  // namespace

void check_gloo_available() {}

std::unique_ptr<ProcessGroup> make_gloo_group(const GroupOptions& options) {
  auto c10d_options = c10d::ProcessGroupGloo::Options::create();
  c10d_options->devices.push_back(listening_device(options));
  c10d_options->timeout = options.timeout;
  return std::make_unique<GroupOf<c10d::ProcessGroupGloo>>(
      c10::make_intrusive<c10d::ProcessGroupGloo>(options.store, static_cast<int>(options.rank),
                                                  static_cast<int>(options.size), c10d_options));
}

}  // namespace hydramix
