#include "server/browser_guard.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/ascii.h"

namespace weir::server {

namespace {

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_v4_address(std::string_view host) {
  return host.find('.') != std::string_view::npos &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Addresses only: a name may also start with 127, such as 127.evil.example.
bool is_loopback(std::string_view host) {
  return host == "[::1]" || (is_v4_address(host) && host.starts_with("127."));
}

// Reserved by RFC 6761, 6762 and 8375, and by ICANN.
bool ends_with_local_domain(std::string_view host) {
  constexpr std::array<std::string_view, 5> domains{".localhost", ".local", ".internal",
                                                    ".home.arpa", ".test"};
  return std::ranges::any_of(domains, [&](std::string_view domain) {
    return host.size() > domain.size() &&
           same_ignoring_case(host.substr(host.size() - domain.size()), domain);
  });
}

}  // namespace

std::string own_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

bool is_own_host(std::string_view host, std::string_view own) {
  host = without_port(host);
  if (is_loopback(host) || same_ignoring_case(host, "localhost")) return true;
  return !own.empty() && same_ignoring_case(host, own);
}

bool is_local_name(std::string_view host) {
  host = without_port(host);
  if (ends_with_local_domain(host)) return true;
  return !host.empty() && host.find_first_of("[.") == std::string_view::npos;
}

bool is_known_host(std::string_view host, std::span<const std::string> names) {
  if (is_local_name(host)) return true;
  host = without_port(host);
  const bool is_address = host.starts_with('[') || is_v4_address(host);
  return is_address || std::ranges::any_of(names, [&](std::string_view name) {
           return same_ignoring_case(host, name);
         });
}

}  // namespace weir::server
