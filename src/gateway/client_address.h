#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gateway/address.h"
#include "gateway/config.h"
#include "wire/http1.h"

namespace weir::gateway {

// The fields of a request or an answer, in its order; names in any case.
using Fields = std::span<const wire::HttpField>;

// Who asks. Addresses that proxies tell are believed from the right, as far as trusted proxies tell
// them: the client is the first that is not a trusted proxy. What cannot be read ends the walk at
// the proxy that told it: nobody chooses his address, the worst he can do is to be counted as the
// proxy.
Address client_address(const Address& peer, Fields fields, const std::vector<AddressRange>& trusted,
                       ClientFrom from);

}  // namespace weir::gateway
