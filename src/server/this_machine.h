#pragma once

#include <span>
#include <string>
#include <string_view>

// Whether a browser was led to this machine by somebody else's name, or by somebody else's page.

namespace weir::server {

// What this machine calls itself; empty if it does not say.
std::string name_of_this_machine();

// Whether that is a name or address of this machine, whose own name is `own`, with or without a
// port.
bool is_this_machine(std::string_view host, std::string_view own);

// Whether no site of the public DNS can have that name, with or without a port: it has no dot, or
// ends with a domain that is reserved for local use (.local, .internal, …).
bool is_local_name(std::string_view host);

// Whether a stranger cannot have chosen that host, with or without a port, to lead a browser here
// (DNS rebinding): it is an address, a local name, or one of `names`.
bool is_known_host(std::string_view host, std::span<const std::string> names);

}  // namespace weir::server
