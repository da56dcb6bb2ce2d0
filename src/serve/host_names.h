// SPDX-License-Identifier: Apache-2.0
// The names by which requests may call the server, as their Host header has them.
//
// A site can let its name resolve to 127.0.0.1 once a browser has loaded its page (DNS rebinding).
// The page then counts as one of this server, Origin included; only Host still has the site's name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hydramix::serve {

// "Example.org:8080" -> "example.org", "[::1]:80" -> "::1".
std::string host_name(std::string_view host);

// Whether it is an address, localhost or one of `names`. An empty host also counts: HTTP/1.0
// permits it, and browsers never send it.
bool is_host_of(std::string_view host, const std::vector<std::string>& names);

// Whether only programs of this machine reach a server that listens there.
bool is_loopback(std::string_view address);

}  // namespace hydramix::serve
