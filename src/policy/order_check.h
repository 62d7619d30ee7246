#pragma once

#include <optional>
#include <string>

#include "policy/policy_file.h"

// Checks that the limits of a policy can be changed as its orders demand.

namespace weir::policy {

// An error message if an order in force cannot be applied to a limit of the policy: the limit, the
// keys it is for, and the reason. With `since`, one of the policy's orders, only problems that this
// order adds are reported.
std::optional<std::string> why_not_applicable(const Policy& policy, Instant now,
                                              const Order* since = nullptr);

}  // namespace weir::policy
