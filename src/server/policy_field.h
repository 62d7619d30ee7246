#pragma once

#include <string_view>

#include "server/server_context.h"
#include "wire/rate_fields.h"

namespace weir::server {

// The value of the RateLimit-Policy field for a verdict under a policy: all limits of the policy;
// or, where they depend on the key or the time, the limit that decided. Valid until the next call
// on this thread.
std::string_view policy_field(ServerContext& context, std::string_view policy,
                              const Verdict& verdict);

// The same for a limit that came with the call, as text.
std::string_view policy_field(std::string_view limit);

}  // namespace weir::server
