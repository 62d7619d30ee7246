#pragma once

#include <string>
#include <string_view>

#include "net/protocol.h"

namespace weir::server {

// Shows a protocol its input as a connection does, until it has said enough or leaves the rest for
// later; how much it has used. (On a busy machine any of it may be long enough for one turn.)
inline std::size_t show(net::Protocol& protocol, std::string_view input, std::string& out) {
  std::size_t used = 0;
  for (;;) {
    std::string said;
    const std::size_t more = protocol.on_input(input.substr(used), said);
    used += more;
    out += said;
    const bool goes_on = more > 0 && used < input.size() && out.size() < net::Protocol::kEnough;
    if (!goes_on || protocol.ends() || protocol.waits()) return used;
  }
}

}  // namespace weir::server
