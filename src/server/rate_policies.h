#pragma once

#include <string_view>

#include "server/service.h"
#include "wire/rate_fields.h"

namespace weir::server {

// The RateLimit-Policy field of an answer about a policy: it lists all its limits, or, where they
// depend on the key or the time, the one that decided. Valid until the next call in this thread.
std::string_view policy_field(Service& service, std::string_view policy, const Verdict& verdict);

// The same of an answer about a limit that came with the call, as text.
std::string_view policy_field(std::string_view limit);

}  // namespace weir::server
