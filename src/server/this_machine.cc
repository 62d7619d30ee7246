#include "server/this_machine.h"

#include <unistd.h>

#include <array>

#include "base/ascii.h"

namespace weir::server {

namespace {

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// (A name may start with 127 as well: 127.evil.example is somebody's.)
bool is_loopback(std::string_view host) {
  const bool is_number = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "[::1]" || (is_number && host.starts_with("127."));
}

}  // namespace

std::string name_of_this_machine() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

bool is_this_machine(std::string_view host, std::string_view own) {
  host = without_port(host);
  if (is_loopback(host) || same_ignoring_case(host, "localhost")) return true;
  return !own.empty() && same_ignoring_case(host, own);
}

bool is_local_name(std::string_view host) {
  host = without_port(host);
  return !host.empty() && host.find_first_of("[.") == std::string_view::npos;
}

}  // namespace weir::server
