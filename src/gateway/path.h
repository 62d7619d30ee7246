#pragma once

#include <string>
#include <string_view>

namespace weir::gateway {

// A request's path in the ways it is needed. Escapes that mean the same as a character (%41) are
// undone, the others are written in capitals; empty segments and those with dots are resolved.
//
// Services behind do not agree on what %2F, \ and ;x=1 mean: some take the first two for a slash
// and drop the last. A request is refused if that changes its route (path_readings.h): nobody gets
// around a limit by spelling. Keys are made of the bold reading, so that all spellings of one
// resource are counted together.
struct Path {
  std::string as_sent;    // byte by byte what the client sent
  std::string forwarded;  // escaped, to be sent on: "/a%20b/c"
  std::string plain;      // without escapes but %2F and %5C, to be matched: "/a b/c"
  std::string bold;       // the other reading; the same as `plain` for most
};

// Whether it could be read: not if an escape is malformed or stands for a control character, nor if
// dots behind `;` or %2F would leave a segment (`/a/..;/b`). `path` starts with a slash; "*" stays
// as it is. The memory of `into` is used again.
bool read_path(std::string_view path, Path& into);

// A host as it is compared and counted: lower case, without port and without a dot at its end; an
// IPv6 address without brackets, in its shortest form. False if it cannot be one. An empty host is
// one.
bool read_host(std::string_view host, std::string& into);

}  // namespace weir::gateway
