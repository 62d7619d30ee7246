#pragma once

#include <string>
#include <string_view>

#include "net/protocol.h"

namespace weir::server {

// Feeds input to a protocol as a connection does, until it has written enough, waits or ends.
// Returns the bytes it has used. (On a busy machine one turn may use only part of the input.)
inline std::size_t feed(net::Protocol& protocol, std::string_view input, std::string& out) {
  std::size_t used = 0;
  for (;;) {
    std::string written;
    const std::size_t more = protocol.on_input(input.substr(used), written);
    used += more;
    out += written;
    const bool goes_on =
        more > 0 && used < input.size() && out.size() < net::Protocol::kOutputHighWater;
    if (!goes_on || protocol.ends() || protocol.waits()) return used;
  }
}

}  // namespace weir::server
