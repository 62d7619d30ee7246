#pragma once

#include <span>
#include <string>
#include <string_view>

// Checks of Host and Origin against pages of other sites in a browser: DNS rebinding and CSRF. A
// host may have a port.

namespace weir::server {

// The host name of this machine; empty if it is not known.
std::string own_host_name();

// True for a loopback address, "localhost", and `own`, the host name of this machine.
bool is_own_host(std::string_view host, std::string_view own);

// True for a name that no site of the public DNS can have: without a dot, or in a domain that is
// reserved for local use (.local, .internal, …).
bool is_local_name(std::string_view host);

// True for a host that an attacker cannot have pointed here (DNS rebinding): an address, a local
// name, or one of `names`.
bool is_known_host(std::string_view host, std::span<const std::string> names);

}  // namespace weir::server
