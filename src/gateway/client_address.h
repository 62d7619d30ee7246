#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/ip_address.h"
#include "wire/http1.h"

namespace weir::gateway {

// The header fields of a message in order; names in any case.
using FieldSpan = std::span<const wire::HttpField>;

// The address of the client. Forwarded addresses are read from the right, as long as the proxy that
// appended them is trusted: the client is the first address that is not a trusted proxy. An
// unreadable element ends the walk at the proxy that appended it. So a client cannot choose its
// address; at worst it is counted as the proxy.
IpAddress client_address(const IpAddress& peer, FieldSpan fields,
                         const std::vector<IpRange>& trusted, ClientFrom from);

}  // namespace weir::gateway
