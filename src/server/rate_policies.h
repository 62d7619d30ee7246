#pragma once

#include <span>
#include <string_view>

#include "server/service.h"
#include "wire/rate_fields.h"

namespace weir::server {

// What the RateLimit-Policy field lists about a policy: all its limits, or, where they depend on
// the key or the time, the one that decided. Valid until the next call in this thread.
std::span<const wire::QuotaPolicy> quota_policies(Service& service, std::string_view policy,
                                                  const Verdict& verdict);

}  // namespace weir::server
