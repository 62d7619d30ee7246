#pragma once

#include <string>
#include <string_view>

namespace weir::gateway {

// The path of a request in the forms that the gateway needs. Escapes of unreserved characters (%41)
// are decoded, others are written in upper case; empty segments and dot segments are resolved.
//
// Servers disagree on %2F, \ and ;x=1: some read the first two as a slash and drop the last (path
// parameters). A request whose route depends on that is refused (path_readings.h), so that spelling
// cannot bypass a limit. Keys are made from the lenient form, so that all spellings of a resource
// are counted together.
struct Path {
  std::string as_sent;    // the bytes that the client sent
  std::string forwarded;  // escaped, for the upstream: "/a%20b/c"
  std::string plain;      // decoded except %2F and %5C, for matching: "/a b/c"
  std::string lenient;    // %2F and \ as slashes, path parameters dropped; mostly equal to `plain`
};

// False if an escape is malformed or stands for a control character, or if the lenient form would
// contain a dot segment (`/a/..;/b`). `path` starts with a slash, or is "*". The memory of `into`
// is reused.
bool read_path(std::string_view path, Path& into);

// Normalises a host for comparison and counting: lower case, without port and trailing dot; an IPv6
// address in its shortest form without brackets. An empty host is valid. False if it is malformed.
bool read_host(std::string_view host, std::string& into);

}  // namespace weir::gateway
