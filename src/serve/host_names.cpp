// SPDX-License-Identifier: Apache-2.0
#include "serve/host_names.h"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <cctype>

namespace hydramix::serve {

std::string host_name(std::string_view host) {
  if (const auto end = host.find(']'); host.starts_with('[') && end != std::string_view::npos)
    host = host.substr(1, end - 1);
  else
    host = host.substr(0, host.find(':'));
  std::string name(host);
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();  // "localhost.", the root's dot
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

bool is_host_of(std::string_view host, const std::vector<std::string>& names) {
  const auto name = host_name(host);
  if (name.empty() || name == "localhost") return true;
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  if (!error) return true;
  return std::any_of(names.begin(), names.end(),
                     [&](const auto& known) { return host_name(known) == name; });
}

bool is_loopback(std::string_view address) {
  boost::system::error_code error;
  const auto parsed = boost::asio::ip::make_address(address, error);
  return address == "localhost" || (!error && parsed.is_loopback());
}

}  // namespace hydramix::serve
